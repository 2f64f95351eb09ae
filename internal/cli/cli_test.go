package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "localhost": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "192.0.2.1": false, "example.org": false, "127.0.0.1.example.org": false,
	} {
		require.Equal(t, want, IsLoopback(host), "%q", host)
	}
}
