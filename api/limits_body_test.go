package api

import (
	"net/http"
	"strings"
	"testing"
)

// If a response does not depend on the body, the server sends the response without waiting for the
// body, and then closes the connection.
func TestAnswersDoNotWaitForBodies(t *testing.T) {
	s := start(t, func(c *Config) { c.BodyTimeout, c.MaxBodySize = 10*patience, 10 })
	for _, c := range []struct {
		path, headers string
		status        int
	}{
		{"/nowhere", "Content-Length: 100000", http.StatusNotFound},
		{"/nowhere", "Transfer-Encoding: chunked", http.StatusNotFound},
		{"/nowhere", "Content-Length: 100\r\nExpect: 100-continue", http.StatusNotFound},
		{"/nowhere", "Content-Length: 100\r\nOrigin: https://elsewhere.example\r\nSec-Fetch-Site: cross-site", http.StatusForbidden},
		{"{ledger}/ipc-records", "Content-Type: text/plain\r\nContent-Length: 100", http.StatusUnsupportedMediaType},
	} {
		slow := s.dial()
		slow.say("POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", c.path, c.headers)
		if !strings.Contains(c.headers, "Expect") && !strings.Contains(c.headers, "chunked") {
			slow.say("{")
		}
		slow.hear().want(c.status)
		slow.ended()
	}
	long := s.dial() // the body exceeds MaxBodySize, and the client never sends the rest of it
	long.say("POST {ledger}/ipc-records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n%s", strings.Repeat(" ", 20))
	long.hear().want(http.StatusRequestEntityTooLarge)
	long.ended()
	s.quiet()
}

// After refusing a request, the server reads any body that has already arrived, and keeps the
// connection open.
func TestConnectionsStayOpenAfterRefusals(t *testing.T) {
	s := start(t)
	client := s.dial()
	for range 3 {
		client.say("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n%s", strings.Repeat("x", 100_000))
		client.hear().want(http.StatusNotFound)
	}
}
