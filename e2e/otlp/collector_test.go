package otlp_test

import (
	"fmt"
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
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"colophon/client"
	"colophon/client/wire"
)

// route describes how telemetry gets from the SDK to a collector and from there to a server.
type route struct {
	name string
	// start starts a collector that exports to the server at the given addresses.
	start func(t *testing.T, http, grpc string) *collector
	spans func(t *testing.T, c *collector) (*otlptrace.Exporter, error)
	logs  func(t *testing.T, c *collector) (sdklog.Exporter, error)
}

var routes = []route{
	{
		name: "HTTP, compressed",
		start: func(t *testing.T, http, _ string) *collector {
			return startCollector(t, "otlp_http/colophon", fmt.Sprintf("endpoint: 'http://%s/v1/ledgers/default/otlp', compression: gzip", http))
		},
		spans: func(t *testing.T, c *collector) (*otlptrace.Exporter, error) {
			return otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(c.http), otlptracehttp.WithInsecure())
		},
		logs: func(t *testing.T, c *collector) (sdklog.Exporter, error) {
			return otlploghttp.New(t.Context(), otlploghttp.WithEndpoint(c.http), otlploghttp.WithInsecure())
		},
	},
	{
		name: "gRPC, compressed",
		start: func(t *testing.T, _, grpc string) *collector {
			return startCollector(t, "otlp_grpc/colophon", fmt.Sprintf("endpoint: '%s', tls: {insecure: true}, headers: {colophon-ledger: default}, compression: gzip", grpc))
		},
		spans: func(t *testing.T, c *collector) (*otlptrace.Exporter, error) {
			return otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(c.grpc), otlptracegrpc.WithInsecure())
		},
		logs: func(t *testing.T, c *collector) (sdklog.Exporter, error) {
			return otlploggrpc.New(t.Context(), otlploggrpc.WithEndpoint(c.grpc), otlploggrpc.WithInsecure())
		},
	},
}

// wait is how long the tests wait for a retry to take effect.
const wait = 2 * time.Minute

// A collector passes each generation on to the ledger. If the collector receives the same generations twice,
// the ledger records them only once.
func TestCollector(t *testing.T) {
	for _, w := range routes {
		for signal, send := range map[string]func(t *testing.T, c *collector){
			"spans": func(t *testing.T, c *collector) {
				exporter, err := w.spans(t, c)
				require.NoError(t, err)
				require.NoError(t, exporter.ExportSpans(t.Context(), generate(t, exporter)))
				require.NoError(t, exporter.Shutdown(t.Context()))
			},
			"log records": func(t *testing.T, c *collector) {
				exporter, err := w.logs(t, c)
				require.NoError(t, err)
				provider := logProvider(exporter)
				logGenerations(t, provider)
				logGenerations(t, provider)
				require.NoError(t, provider.Shutdown(t.Context()))
			},
		} {
			t.Run(w.name+", "+signal, func(t *testing.T) {
				s := start(t)
				c := w.start(t, strings.TrimPrefix(s.http.URL, "http://"), strings.TrimPrefix(s.grpc.URL, "http://"))
				send(t, c)
				c.stop(t)
				require.EqualValues(t, 1+count, s.ledger.Head().Size, c.log())
				s.recorded(t, "chat-go")
			})
		}
	}
}

// While the server is down after it was killed, a collector keeps the data that it cannot send. It
// sends the data once the server has been restarted. Each generation is recorded exactly once.
func TestCollectorRepeatsWhatAKilledServerMissed(t *testing.T) {
	const kills, part, last = 3, 200, 30 // part is the number of generations in each round; last is how many of those are made after the kill
	for _, w := range routes {
		t.Run(w.name, func(t *testing.T) {
			p := startProcess(t)
			c := w.start(t, p.http, p.grpc)
			exporter, err := w.spans(t, c)
			require.NoError(t, err)
			provider := trace.NewTracerProvider(trace.WithBatcher(exporter, trace.WithMaxExportBatchSize(20), trace.WithBlocking()),
				trace.WithResource(resource.NewSchemaless(attribute.String("service.name", "chat-go"))))
			tracer := provider.Tracer("test")
			for round := range kills {
				killed, sent := make(chan struct{}), make(chan error, 1)
				go func() {
					for i := round * part; i < (round+1)*part; i++ {
						if i == (round+1)*part-last {
							<-killed
						}
						generation(t.Context(), tracer, i)
					}
					sent <- provider.ForceFlush(t.Context())
				}()
				require.Eventually(t, func() bool { return p.size(t) > uint64(1+round*part) }, wait, time.Millisecond)
				p.kill()
				failures := strings.Count(c.log(), "Exporting failed. Will retry")
				close(killed)
				require.NoError(t, <-sent, "the collector has everything")
				require.Eventually(t, func() bool { return strings.Count(c.log(), "Exporting failed. Will retry") > failures }, wait, time.Millisecond)
				p.start(t)
				require.Eventually(t, func() bool { return p.size(t) >= uint64(1+(round+1)*part) }, wait, 10*time.Millisecond)
			}
			require.NoError(t, provider.Shutdown(t.Context()))
			c.stop(t)
			require.EqualValues(t, 1+kills*part, p.size(t))
			spans, outputs := make(map[string]bool), make(map[string]bool)
			for r, err := range p.ledger.Records.List(&client.RecordFilter{Kind: wire.KindIPCRecord}).All(t.Context()) {
				require.NoError(t, err)
				spans[r.RunID], outputs[r.Hashes.Get("output_hash")] = true, true
				require.Equal(t, "chat-go", r.Labels["service"])
			}
			require.Len(t, spans, kills*part)
			require.Len(t, outputs, kills*part)
		})
	}
}
