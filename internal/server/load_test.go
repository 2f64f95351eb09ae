package server

import (
	"bytes"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/api/limits"
	"colophon/internal/cli"
)

func TestLoadLimitsAreChecked(t *testing.T) {
	largest := cli.Size(8 << 20)
	good := LoadConfig{}.withDefaults()
	require.NoError(t, good.validate(largest))
	for want, spoil := range map[string]func(*LoadConfig){
		"rate-limit: must not be negative":           func(c *LoadConfig) { c.RateLimit = math.NaN() },
		"address-rate-limit: must be at least 1":     func(c *LoadConfig) { c.AddressRateLimit = 0.5 },
		"failed-auth-limit: must not be negative":    func(c *LoadConfig) { c.FailedAuthLimit = -1 },
		"rate-burst: must not be negative":           func(c *LoadConfig) { c.RateBurst = -time.Second },
		"max-connections: must not be negative":      func(c *LoadConfig) { c.MaxConnections = -1 },
		"max-wait: must not be negative":             func(c *LoadConfig) { c.MaxWait = -1 },
		"max-batches: must not be negative":          func(c *LoadConfig) { c.MaxBatches = -1 },
		"max-followers: must not be negative":        func(c *LoadConfig) { c.MaxFollowers = -1 },
		"max-values: must not be negative":           func(c *LoadConfig) { c.MaxValues = -1 },
		"body-timeout: must not be negative":         func(c *LoadConfig) { c.BodyTimeout = -1 },
		"batch-idle: must not be negative":           func(c *LoadConfig) { c.BatchIdle = -1 },
		"write-timeout: must not be negative":        func(c *LoadConfig) { c.WriteTimeout = -1 },
		"max-body-memory: must be at least 64MiB,":   func(c *LoadConfig) { c.MaxBodyMemory = 63 << 20 },
		"max-answer-memory: must be at least 96MiB,": func(c *LoadConfig) { c.MaxAnswerMemory = 95 << 20 },
	} {
		c := good
		spoil(&c)
		require.ErrorContains(t, c.validate(largest), want)
	}
}

// The server's defaults equal the defaults of its flags.
func TestLoadDefaultsAreThoseOfTheInterface(t *testing.T) {
	require.Equal(t, limits.MaxOpen(limits.Load{}), limits.MaxOpen(LoadConfig{}.withDefaults().limits()))
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config := LoadConfig{}.withDefaults()
	config.bind(flags)
	flags.VisitAll(func(f *pflag.Flag) { require.NoError(t, flags.Set(f.Name, f.DefValue), f.Name) })
	require.Equal(t, LoadConfig{}.withDefaults().limits(), config.limits())
}

func TestNetworks(t *testing.T) {
	var n networks
	require.NoError(t, n.UnmarshalText([]byte("127.0.0.1, 10.1.2.3/8,2001:db8::1,2001:db8::/32")))
	text, err := n.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1/32,10.0.0.0/8,2001:db8::1/128,2001:db8::/32", string(text))
	require.NoError(t, n.UnmarshalText(nil))
	require.Empty(t, n)
	for _, wrong := range []string{",", "10.0.0.0/33", "proxy", "10.0.0.0/8 10.0.0.0/8", "10.0.0.1:80"} {
		require.ErrorContains(t, n.UnmarshalText([]byte(wrong)), "is not a network", wrong)
	}
	rapid.Check(t, func(t *rapid.T) {
		var once, twice networks
		if once.UnmarshalText([]byte(rapid.StringMatching(`([0-9]{1,3}\.){3}[0-9]{1,3}(/[0-9]{1,2})?`).Draw(t, "network"))) != nil {
			return
		}
		text, err := once.MarshalText()
		require.NoError(t, err)
		require.NoError(t, twice.UnmarshalText(text))
		require.Equal(t, once, twice)
	})
}

func TestTooFewOpenFilesAreWarnedOf(t *testing.T) {
	limit, known := OpenFileLimit()
	if !known {
		t.Skip("this system has no such limit")
	}
	var log bytes.Buffer
	c := LoadConfig{MaxConnections: 1}.withDefaults()
	if FilesNeeded(c) <= limit {
		checkOpenFiles(c, slog.New(slog.NewTextHandler(&log, nil)))
		require.Empty(t, log.String())
	}
	c.MaxConnections = int(min(limit, math.MaxInt32))
	checkOpenFiles(c, slog.New(slog.NewTextHandler(&log, nil)))
	require.Contains(t, log.String(), "allow more (ulimit -n")
}
