package api

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// countedListener counts the writes to the connections that it accepts.
type countedListener struct {
	net.Listener
	writes atomic.Int64
}

func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &countedConn{c, l}, err
}

type countedConn struct {
	net.Conn
	listener *countedListener
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.listener.writes.Add(1)
	return c.Conn.Write(p)
}

// Each receipt on a connection is sent in a single write, although net/http buffers only 4 KiB.
func TestReceiptsAreSentInOneWrite(t *testing.T) {
	s := start(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	counted := &countedListener{Listener: listener}
	server := s.server().HTTPServer()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.server().LimitListener(counted)) }()
	url := "http://" + listener.Addr().String() + "/v1/ledgers/default"
	for labels := range 33 {
		var list []string
		for i := range labels {
			list = append(list, fmt.Sprintf(`"%03d":%q`, i, strings.Repeat("x", 128)))
		}
		body := `{"payload":{"seed":1},"model":"m","temperature":0.5,"max_tokens":10,"labels":{` + strings.Join(list, ",") + `}}`
		before := counted.writes.Load()
		s.verified(s.post(url+"/ipc-records", body).want(http.StatusCreated))
		require.EqualValues(t, 1, counted.writes.Load()-before, labels)
		path := fmt.Sprintf("%s/records/%d/receipt", url, s.size()-1)
		s.verified(s.get(path).want(http.StatusOK))
		require.EqualValues(t, 2, counted.writes.Load()-before, labels)
		s.do(http.MethodHead, path, "").want(http.StatusOK)
	}
	http.DefaultClient.CloseIdleConnections()
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-ended, http.ErrServerClosed)
}

// A receipt of more than 32 KiB arrives complete and verifies.
func TestLongReceipts(t *testing.T) {
	s := start(t)
	var citations []string
	for i := range 320 {
		citations = append(citations, fmt.Sprintf(`{"chunk_hash":"sha256:%064x","source_id":"s","weight":0.5}`, i))
	}
	body := `{"subject":"s","citations":[` + strings.Join(citations, ",") + `]}`
	answer := s.post("/citation-sets", body).want(http.StatusCreated)
	require.Greater(t, len(answer.body), 32<<10)
	s.verified(answer)
}
