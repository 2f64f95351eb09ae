package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkForwardProtocol measures the requests between two servers, 32 at a time for each processor, over
// the connections that a forwarder keeps and over HTTP/2. It is the reason why forwarders use HTTP/1.1.
func BenchmarkForwardProtocol(b *testing.B) {
	body, answer := bytes.Repeat([]byte{'x'}, 1500), bytes.Repeat([]byte{'y'}, 3700)
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			_, _ = w.Write(answer)
		}
	}))
	other.Config.Protocols = new(http.Protocols)
	other.Config.Protocols.SetHTTP1(true)
	other.Config.Protocols.SetUnencryptedHTTP2(true)
	other.Start()
	defer other.Close()
	for _, version := range []int{1, 2} {
		b.Run(fmt.Sprint("http", version), func(b *testing.B) {
			transport := newForwarder(nil).transport
			if version == 2 {
				transport.Protocols = new(http.Protocols)
				transport.Protocols.SetUnencryptedHTTP2(true)
			}
			defer transport.CloseIdleConnections()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, err := http.NewRequest(http.MethodPost, other.URL, bytes.NewReader(body))
					require.NoError(b, err)
					response, err := transport.RoundTrip(r)
					require.NoError(b, err)
					require.Equal(b, version, response.ProtoMajor)
					_, err = io.Copy(io.Discard, response.Body)
					require.NoError(b, err)
					response.Body.Close()
				}
			})
		})
	}
}
