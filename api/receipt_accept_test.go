package api

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/call"
)

// GET /events sends a page to a client whose Accept header rules out an event stream, and a
// stream to a client that prefers one.
func TestAcceptOfEvents(t *testing.T) {
	s := start(t)
	a := s.get("/events", "Accept", "text/event-stream;q=0").want(http.StatusOK)
	require.Equal(t, call.NDJSONMediaType, a.header.Get("Content-Type"))
	s.listen("?from=0", "Accept", "application/json;q=0.5, text/event-stream").events(1)
}
