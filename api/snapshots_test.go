package api

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/admin"
	"colophon/storage"
)

func TestSnapshots(t *testing.T) {
	var name string
	var err error
	s := start(t, func(c *Config) {
		c.Snapshot = func(context.Context) (string, int, error) { return name, 3, err }
	})
	name = "backup"
	require.JSONEq(t, `{"name":"backup","erasing":3}`, string(s.post(s.http.URL+"/v1/snapshots", "").want(http.StatusCreated).body))
	err = fmt.Errorf("%w: no backup waits", admin.ErrNoSnapshot)
	require.Equal(t, "no snapshot was made: no backup waits", s.post(s.http.URL+"/v1/snapshots", "").problem(http.StatusConflict).Detail)
	err = storage.ErrNoSpace
	s.post(s.http.URL+"/v1/snapshots", "").problem(http.StatusServiceUnavailable)
}
