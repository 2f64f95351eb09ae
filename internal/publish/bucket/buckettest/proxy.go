package buckettest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
)

// FaultyURL is like URL, but requests pass through a proxy that injects faults. fault returns the fault to
// inject into a request with the given method. It can be called concurrently. FaultBeforeCall answers 503.
// FaultAfterCall passes the request on and closes the connection without a response. FaultHang never answers.
// FaultLostPut answers a PUT as if the object had been stored.
func (s *S3) FaultyURL(t testing.TB, prefix string, fault func(method string) Fault) string {
	t.Helper()
	target := &url.URL{Scheme: "http", Host: s.address}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the signature of the request contains it
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch injected := fault(r.Method); {
		case injected == FaultBeforeCall:
			w.WriteHeader(http.StatusServiceUnavailable)
		case injected == FaultAfterCall:
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler) // closes the connection without a response
		case injected == FaultHang:
			_, _ = io.Copy(io.Discard, r.Body) // net/http notices only then that the client has left
			<-r.Context().Done()
		case injected == FaultLostPut && r.Method == http.MethodPut:
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("ETag", `"`+tagOf(body)+`"`)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return fmt.Sprintf("s3://bucket/%s?region=us-east-1&endpoint=%s", prefix, url.QueryEscape(server.URL))
}
