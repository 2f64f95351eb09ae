package api

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// raw sends a request given as text, after replacing {host} with the server's address, and returns
// the response.
func (s *service) raw(request string) answer {
	s.t.Helper()
	address := strings.TrimPrefix(s.http.URL, "http://")
	connection, err := net.Dial("tcp", address)
	require.NoError(s.t, err)
	defer connection.Close()
	_, err = fmt.Fprint(connection, strings.ReplaceAll(request, "{host}", address))
	require.NoError(s.t, err)
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	require.NoError(s.t, err)
	defer response.Body.Close()
	var body strings.Builder
	_, err = bufio.NewReader(response.Body).WriteTo(&body)
	require.NoError(s.t, err)
	return answer{s.t, response.StatusCode, response.Header, []byte(body.String())}
}

// A body with a broken chunked encoding gets 400, not 500.
func TestBrokenChunksAreRefused(t *testing.T) {
	s := start(t)
	for _, chunks := range []string{"x\r\n", "fffffffffffffffff\r\n", "3\r\nabcX\r\n", "3;" + strings.Repeat("e", 10_000) + "\r\n"} {
		a := s.raw("POST /v1/compute/ipc_record HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n" +
			"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + "\r\n\r\n")
		a.problem(http.StatusBadRequest)
	}
}

// Every response has the security headers, even one that is sent before routing.
func TestEveryAnswerIsSecured(t *testing.T) {
	s := start(t)
	for _, a := range []answer{
		s.get("/stats").want(http.StatusOK),
		s.get(s.http.URL + "/nothing").want(http.StatusNotFound),
		s.post("/freeze", "", "Origin", "https://other.example", "Sec-Fetch-Site", "cross-site").want(http.StatusForbidden),
	} {
		require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", a.header.Get("Referrer-Policy"))
	}
}

// A slash within a path element must be percent-encoded. An unescaped slash changes which path is
// requested.
func TestSlashesInElements(t *testing.T) {
	s := start(t)
	s.do(http.MethodPut, "/sources/a//b", "{}", "Content-Type", "application/json").problem(http.StatusNotFound)
	s.do(http.MethodPut, "/sources/a/", "{}", "Content-Type", "application/json").problem(http.StatusNotFound)
	s.do(http.MethodPut, "/sources/a%2Fb", "{}", "Content-Type", "application/json").want(http.StatusCreated)
	s.get("/sources/a%2Fb").want(http.StatusOK)
	s.get("/sources/a/b").problem(http.StatusNotFound)
}

// A tree size of 0 is refused, because every ledger has at least one event.
func TestSizeZeroIsRefused(t *testing.T) {
	s := start(t)
	s.get("/records?as_of=0").problem(http.StatusBadRequest)
	s.post("/redactions", `{"as_of":0,"seqs":[0],"reason":"r"}`).problem(http.StatusUnprocessableEntity)
	s.get("/records?flag=x").problem(http.StatusBadRequest)
	s.get("/records?flag=unregistered_source").want(http.StatusOK)
}
