package limits

import (
	"cmp"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record"
)

func TestLoadLimitsAreChecked(t *testing.T) {
	good := ServerLimits{}.WithDefaults()
	require.NoError(t, good.Check())
	for want, spoil := range map[string]func(*ServerLimits){
		"rate-limit: must not be negative":           func(c *ServerLimits) { c.RequestRate = math.NaN() },
		"address-rate-limit: must be at least 1":     func(c *ServerLimits) { c.AddressRate = 0.5 },
		"failed-auth-limit: must not be negative":    func(c *ServerLimits) { c.AuthFailureRate = -1 },
		"rate-burst: must not be negative":           func(c *ServerLimits) { c.BurstDuration = -time.Second },
		"max-connections: must not be negative":      func(c *ServerLimits) { c.MaxConnections = -1 },
		"max-wait: must not be negative":             func(c *ServerLimits) { c.MaxWait = -1 },
		"max-batches: must not be negative":          func(c *ServerLimits) { c.MaxBatches = -1 },
		"max-followers: must not be negative":        func(c *ServerLimits) { c.MaxFollowers = -1 },
		"max-values: must not be negative":           func(c *ServerLimits) { c.MaxRecordValues = -1 },
		"max-values: must be at most 2000000, not 2": func(c *ServerLimits) { c.MaxRecordValues = record.MaxValues + 1 },
		"body-timeout: must not be negative":         func(c *ServerLimits) { c.BodyTimeout = -1 },
		"batch-idle: must not be negative":           func(c *ServerLimits) { c.BatchIdleTimeout = -1 },
		"write-timeout: must not be negative":        func(c *ServerLimits) { c.WriteTimeout = -1 },
		"max-labels: must not be negative":           func(c *ServerLimits) { c.MaxLabels = -1 },
		"max-label-bytes: must not be negative":      func(c *ServerLimits) { c.MaxLabelBytes = -1 },
		"index-wait: must not be negative":           func(c *ServerLimits) { c.IndexWait = -1 },
		"max-page: must be at least 1, not 0":        func(c *ServerLimits) { c.MaxPageRows = 0 },
		"max-selected: must be at least 1, not 0":    func(c *ServerLimits) { c.MaxSelectedRecords = 0 },
		"max-body-memory: must be at least 64MiB,":   func(c *ServerLimits) { c.MaxBodyMemory = 63 << 20 },
		"max-answer-memory: must be at least 96MiB,": func(c *ServerLimits) { c.MaxAnswerMemory = 95 << 20 },
	} {
		c := good
		spoil(&c)
		require.ErrorContains(t, c.Check(), want)
	}
}

// Every field of ServerLimits has exactly one setting. Setting every flag to the default that its
// help shows yields the default limits.
func TestEveryLimitIsASetting(t *testing.T) {
	load := ServerLimits{}.WithDefaults()
	require.Len(t, load.settings(), reflect.TypeFor[ServerLimits]().NumField())
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	load.Bind(flags)
	for i, s := range load.settings() {
		name := cmp.Or(s.name, "-")
		field, tagged := reflect.TypeFor[ServerLimits]().FieldByNameFunc(func(field string) bool {
			return reflect.ValueOf(&load).Elem().FieldByName(field).Addr().Interface() == s.field
		})
		require.True(t, tagged, i)
		require.Equal(t, name, field.Tag.Get("yaml"))
		require.Equal(t, s.name != "", flags.Lookup(s.name) != nil, name)
	}
	flags.VisitAll(func(f *pflag.Flag) { require.NoError(t, flags.Set(f.Name, f.DefValue), f.Name) })
	require.Equal(t, ServerLimits{}.WithDefaults(), load)
}

func TestNetworksReadWhatTheyWrite(t *testing.T) {
	var n Networks
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
		var once, twice Networks
		if once.UnmarshalText([]byte(rapid.StringMatching(`([0-9]{1,3}\.){3}[0-9]{1,3}(/[0-9]{1,2})?`).Draw(t, "network"))) != nil {
			return
		}
		text, err := once.MarshalText()
		require.NoError(t, err)
		require.NoError(t, twice.UnmarshalText(text))
		require.Equal(t, once, twice)
	})
}
