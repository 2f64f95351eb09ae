package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/storage/postgres/postgrestest"
)

// unreadableMarks are the high-water marks of a server that cannot read them.
type unreadableMarks struct{}

func (unreadableMarks) Mark(string) ([]byte, error)  { return nil, errors.New("permission denied") }
func (unreadableMarks) SetMark(string, []byte) error { return errors.New("permission denied") }

// A server that holds a lease but cannot open the ledger gives up the lease once another server with the
// keys is running.
func TestServerWithAFaultGivesUpTheLease(t *testing.T) {
	s := postgrestest.SharedServer(t)
	url, keys := s.URL("search_path", s.CreateSchema(t)), t.TempDir()
	first := startNodeWith(t, url, "first", roundPause, keys, nil)
	first.create("a")
	require.Eventually(t, func() bool { return first.host.Status("a") == ledger.StatusWritable }, time.Minute, time.Millisecond)
	first.stop()

	bad := startNodeWith(t, url, "bad", roundPause, keys, unreadableMarks{})
	require.Eventually(t, func() bool { return bad.cluster.leases.HoldsLease("a") }, time.Minute, time.Millisecond)
	good := startNodeWith(t, url, "good", roundPause, keys, nil)
	require.Eventually(t, func() bool { return good.host.Status("a") == ledger.StatusWritable }, time.Minute, time.Millisecond)
	require.False(t, bad.cluster.leases.HoldsLease("a"))
	good.grow("a")
	bad.shows("a", good.ledger("a").Head().Size)
}
