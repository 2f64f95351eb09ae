// Package otlp_test runs the exporters of OpenTelemetry SDKs, as an instrumented service would,
// against a server with a new ledger.
package otlp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"colophon/api"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	"colophon/ledger/query"
	"colophon/storage/memory"
)

// server is a server with the ledger "default" that is reachable over HTTP and gRPC.
type server struct {
	http, grpc *httptest.Server
	ledger     *ledger.Ledger
}

func start(t *testing.T) *server {
	t.Helper()
	host, err := ledger.OpenHost(t.Context(), memory.New(), keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	l, err := host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	derived, err := query.OpenIndex(index.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	service, err := api.New(api.Config{Host: host, Index: derived, Version: "test"})
	require.NoError(t, err)
	s := &server{http: httptest.NewServer(service), grpc: httptest.NewUnstartedServer(nil), ledger: l}
	s.grpc.Config = service.GRPCServer()
	s.grpc.Start()
	t.Cleanup(func() {
		s.http.Close()
		s.grpc.Close()
		require.NoError(t, errors.Join(derived.Close(), host.Close()))
	})
	return s
}

const count = 300

// generate exports count spans that describe generations, each inside a parent span, and returns
// all of the spans.
func generate(t *testing.T, exporter trace.SpanExporter) []trace.ReadOnlySpan {
	t.Helper()
	var kept keeper
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithSyncer(&kept), trace.WithResource(resource.NewSchemaless(attribute.String("service.name", "chat-go"))))
	tracer := provider.Tracer("test")
	for i := range count {
		generation(t.Context(), tracer, i)
	}
	require.NoError(t, provider.ForceFlush(t.Context()))
	return kept.spans
}

// generation emits a span that describes generation i, inside a parent span.
func generation(ctx context.Context, tracer oteltrace.Tracer, i int) {
	ctx, around := tracer.Start(ctx, "GET /chat")
	defer around.End()
	_, span := tracer.Start(ctx, "chat gpt-4o")
	defer span.End()
	span.SetAttributes(attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.request.model", "gpt-4o"), attribute.Float64("gen_ai.request.temperature", 0.5),
		attribute.String("gen_ai.input.messages", fmt.Sprintf(`[{"role":"user","parts":[{"type":"text","content":"question %d"}]}]`, i)),
		attribute.String("gen_ai.output.messages", fmt.Sprintf(`[{"role":"assistant","parts":[{"type":"text","content":"answer %d"}]}]`, i)))
}

// keeper is an exporter that keeps spans, so that a test can export them again.
type keeper struct{ spans []trace.ReadOnlySpan }

func (k *keeper) ExportSpans(_ context.Context, spans []trace.ReadOnlySpan) error {
	k.spans = append(k.spans, spans...)
	return nil
}

func (k *keeper) Shutdown(context.Context) error { return nil }

// Each generation is recorded once, whichever span exporter sends it, even if the exporter sends it
// twice.
func TestSpanExporters(t *testing.T) {
	for name, make := range map[string]func(s *server) (*otlptrace.Exporter, error){
		"HTTP": func(s *server) (*otlptrace.Exporter, error) {
			return otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(s.http.URL+"/v1/ledgers/default/otlp/v1/traces"))
		},
		"HTTP, compressed": func(s *server) (*otlptrace.Exporter, error) {
			return otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(s.http.URL+"/v1/ledgers/default/otlp/v1/traces"), otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
		},
		"gRPC": func(s *server) (*otlptrace.Exporter, error) {
			return otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(strings.TrimPrefix(s.grpc.URL, "http://")), otlptracegrpc.WithInsecure(),
				otlptracegrpc.WithHeaders(map[string]string{"colophon-ledger": "default"}))
		},
		"gRPC, compressed": func(s *server) (*otlptrace.Exporter, error) {
			return otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(strings.TrimPrefix(s.grpc.URL, "http://")), otlptracegrpc.WithInsecure(), otlptracegrpc.WithCompressor("gzip"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			exporter, err := make(s)
			require.NoError(t, err)
			spans := generate(t, exporter)
			require.Len(t, spans, 2*count)
			require.EqualValues(t, 1+count, s.ledger.Head().Size)
			for range 2 {
				require.NoError(t, exporter.ExportSpans(t.Context(), spans))
				require.EqualValues(t, 1+count, s.ledger.Head().Size)
			}
			s.recorded(t, "chat-go")
			require.NoError(t, exporter.Shutdown(t.Context()))
		})
	}
}

// An exporter that uses gRPC reports why the server refused its call.
func TestRefusedExport(t *testing.T) {
	s := start(t)
	exporter, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(strings.TrimPrefix(s.grpc.URL, "http://")), otlptracegrpc.WithInsecure(),
		otlptracegrpc.WithHeaders(map[string]string{"colophon-ledger": "nowhere"}))
	require.NoError(t, err)
	var kept keeper
	provider := trace.NewTracerProvider(trace.WithSyncer(&kept))
	_, span := provider.Tracer("test").Start(t.Context(), "chat")
	span.End()
	require.ErrorContains(t, exporter.ExportSpans(t.Context(), kept.spans), "no such ledger exists")
	require.NoError(t, exporter.Shutdown(t.Context()))
}

// Each log record that describes a generation is recorded once, whichever exporter sends it, even if the
// exporter sends it twice.
func TestLogExporters(t *testing.T) {
	for name, make := range map[string]func(s *server) (sdklog.Exporter, error){
		"HTTP": func(s *server) (sdklog.Exporter, error) {
			return otlploghttp.New(t.Context(), otlploghttp.WithEndpointURL(s.http.URL+"/v1/ledgers/default/otlp/v1/logs"))
		},
		"HTTP, compressed": func(s *server) (sdklog.Exporter, error) {
			return otlploghttp.New(t.Context(), otlploghttp.WithEndpointURL(s.http.URL+"/v1/ledgers/default/otlp/v1/logs"), otlploghttp.WithCompression(otlploghttp.GzipCompression))
		},
		"gRPC": func(s *server) (sdklog.Exporter, error) {
			return otlploggrpc.New(t.Context(), otlploggrpc.WithEndpoint(strings.TrimPrefix(s.grpc.URL, "http://")), otlploggrpc.WithInsecure(),
				otlploggrpc.WithHeaders(map[string]string{"colophon-ledger": "default"}))
		},
		"gRPC, compressed": func(s *server) (sdklog.Exporter, error) {
			return otlploggrpc.New(t.Context(), otlploggrpc.WithEndpoint(strings.TrimPrefix(s.grpc.URL, "http://")), otlploggrpc.WithInsecure(), otlploggrpc.WithCompressor("gzip"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			exporter, err := make(s)
			require.NoError(t, err)
			provider := logProvider(exporter)
			for range 2 {
				logGenerations(t, provider)
				require.EqualValues(t, 1+count, s.ledger.Head().Size)
			}
			s.recorded(t, "chat-go")
			require.NoError(t, provider.Shutdown(t.Context()))
		})
	}
}

func logProvider(exporter sdklog.Exporter) *sdklog.LoggerProvider {
	return sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)), sdklog.WithResource(resource.NewSchemaless(attribute.String("service.name", "chat-go"))))
}

// logGenerations exports count log records that describe generations. The log records are the same
// in every call.
func logGenerations(t *testing.T, provider *sdklog.LoggerProvider) {
	t.Helper()
	logger := provider.Logger("test")
	part := func(role, text string) attribute.Value {
		return attribute.SliceValue(attribute.MapValue(attribute.String("role", role), attribute.Slice("parts", attribute.MapValue(attribute.String("type", "text"), attribute.String("content", text)))))
	}
	at := time.Unix(1764000000, 0)
	for i := range count {
		var r log.Record
		r.SetEventName("gen_ai.client.inference.operation.details")
		r.SetTimestamp(at.Add(time.Duration(i)))
		r.AddAttributes(attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.request.model", "gpt-4o"),
			attribute.KeyValue{Key: "gen_ai.input.messages", Value: part("user", fmt.Sprintf("question %d", i))},
			attribute.KeyValue{Key: "gen_ai.output.messages", Value: part("assistant", fmt.Sprintf("answer %d", i))})
		logger.Emit(t.Context(), r)
	}
	require.NoError(t, provider.ForceFlush(t.Context()))
}

// recorded requires that the ledger contains every generation and that each of them came from the
// given service.
func (s *server) recorded(t *testing.T, service string) {
	t.Helper()
	outputs := make(map[string]bool)
	for seq := uint64(1); seq <= count; seq++ {
		entry, err := s.ledger.Reader().Entry(t.Context(), seq)
		require.NoError(t, err)
		var event struct {
			Record struct {
				Hashes struct {
					Output string `json:"output_hash"`
				}
				Labels map[string]string
			}
		}
		require.NoError(t, json.Unmarshal(entry[32:], &event)) // skips prev_event_hash, which precedes the body
		require.Equal(t, service, event.Record.Labels["service"])
		require.NotEmpty(t, event.Record.Hashes.Output)
		outputs[event.Record.Hashes.Output] = true
	}
	require.Len(t, outputs, count, "every generation must have its own output")
}
