// Sends generations with an exporter of OpenTelemetry's SDK for JavaScript, as an instrumented
// service does, and then sends the same generations again:
//
//	node send.mjs traces|logs proto|http|grpc URL COUNT [gzip]
//
// If an export fails, it prints the reason and exits with 1.
import { context, TraceFlags, trace } from "@opentelemetry/api";
import { OTLPLogExporter as LogsGRPC } from "@opentelemetry/exporter-logs-otlp-grpc";
import { OTLPLogExporter as LogsHTTP } from "@opentelemetry/exporter-logs-otlp-http";
import { OTLPLogExporter as LogsProto } from "@opentelemetry/exporter-logs-otlp-proto";
import { OTLPTraceExporter as TracesGRPC } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as TracesHTTP } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as TracesProto } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchLogRecordProcessor, LoggerProvider } from "@opentelemetry/sdk-logs";
import { BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";

const [signal, protocol, url, counted, compression] = process.argv.slice(2);
const count = Number(counted);
const options = { url, compression: compression ?? "none" };
const resource = resourceFromAttributes({ "service.name": "chat-js" });

// repeat sends items once more, and fails if the server refuses them.
const repeat = (exporter, items) =>
  new Promise((done, fail) => {
    exporter.export(items, ({ code, error }) => (code === 0 ? done() : fail(error ?? new Error(`the export returned code ${code}`))));
  });

const message = (role, text) => [{ role, parts: [{ type: "text", content: text }] }];

// keeping returns an exporter that keeps all items and passes them on.
const keeping = (exporter) => {
  const kept = [];
  const failures = [];
  return {
    kept,
    failures,
    export(items, done) {
      kept.push(...items);
      exporter.export(items, (result) => {
        if (result.code !== 0) failures.push(result.error ?? new Error(`the export returned code ${result.code}`));
        done(result);
      });
    },
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
    shutdown: () => exporter.shutdown(),
  };
};

async function traces(exporter) {
  const batches = new BatchSpanProcessor(exporter);
  const provider = new BasicTracerProvider({ resource, spanProcessors: [batches] });
  const tracer = provider.getTracer("test");
  for (let i = 0; i < count; i++) {
    const around = tracer.startSpan("GET /chat");
    const span = tracer.startSpan("chat gpt-4o", {}, trace.setSpan(context.active(), around));
    span.setAttributes({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "gpt-4o",
      "gen_ai.request.temperature": 0.5,
      "gen_ai.request.max_tokens": 256,
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.input_tokens": 12,
      "gen_ai.input.messages": JSON.stringify(message("user", `question ${i}`)),
      "gen_ai.output.messages": JSON.stringify(message("assistant", `answer ${i}`)),
    });
    span.end();
    around.end();
  }
  await provider.forceFlush();
  return 2 * count;
}

async function logs(exporter) {
  const provider = new LoggerProvider({ resource, processors: [new BatchLogRecordProcessor({ exporter })] });
  const logger = provider.getLogger("test");
  for (let i = 0; i < count; i++) {
    const span = { traceId: (i + 1).toString(16).padStart(32, "0"), spanId: (i + 1).toString(16).padStart(16, "0"), traceFlags: TraceFlags.SAMPLED };
    logger.emit({
      eventName: "gen_ai.client.inference.operation.details",
      context: trace.setSpanContext(context.active(), span),
      attributes: {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 256,
        "gen_ai.input.messages": message("user", `question ${i}`),
        "gen_ai.output.messages": message("assistant", `answer ${i}`),
      },
    });
  }
  await provider.forceFlush();
  return count;
}

const exporters = { traces: { proto: TracesProto, http: TracesHTTP, grpc: TracesGRPC }, logs: { proto: LogsProto, http: LogsHTTP, grpc: LogsGRPC } };
const exporter = keeping(new exporters[signal][protocol](options));
const expected = await (signal === "traces" ? traces : logs)(exporter);
if (exporter.failures.length > 0) throw exporter.failures[0];
if (exporter.kept.length !== expected) throw new Error(`the SDK exported ${exporter.kept.length} items instead of ${expected}`);
await repeat(exporter, [...exporter.kept]);
await exporter.shutdown();
