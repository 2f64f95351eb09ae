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
)

func TestLoadLimitsAreChecked(t *testing.T) {
	good := Load{}.WithDefaults()
	require.NoError(t, good.Check())
	for want, spoil := range map[string]func(*Load){
		"rate-limit: must not be negative":           func(c *Load) { c.RequestRate = math.NaN() },
		"address-rate-limit: must be at least 1":     func(c *Load) { c.AddressRate = 0.5 },
		"failed-auth-limit: must not be negative":    func(c *Load) { c.FailureRate = -1 },
		"rate-burst: must not be negative":           func(c *Load) { c.RateBurst = -time.Second },
		"max-connections: must not be negative":      func(c *Load) { c.Connections = -1 },
		"max-wait: must not be negative":             func(c *Load) { c.Wait = -1 },
		"max-batches: must not be negative":          func(c *Load) { c.Batches = -1 },
		"max-followers: must not be negative":        func(c *Load) { c.Followers = -1 },
		"max-values: must not be negative":           func(c *Load) { c.MaxValues = -1 },
		"body-timeout: must not be negative":         func(c *Load) { c.BodyTimeout = -1 },
		"batch-idle: must not be negative":           func(c *Load) { c.BatchIdle = -1 },
		"write-timeout: must not be negative":        func(c *Load) { c.WriteTimeout = -1 },
		"max-labels: must not be negative":           func(c *Load) { c.MaxLabels = -1 },
		"max-label-bytes: must not be negative":      func(c *Load) { c.MaxLabelBytes = -1 },
		"index-wait: must not be negative":           func(c *Load) { c.IndexWait = -1 },
		"max-page: 0: a page has at least one row":   func(c *Load) { c.MaxPage = 0 },
		"max-selected: 0: a filter selects at least": func(c *Load) { c.MaxSelected = 0 },
		"max-body-memory: must be at least 64MiB,":   func(c *Load) { c.BodyMemory = 63 << 20 },
		"max-answer-memory: must be at least 96MiB,": func(c *Load) { c.AnswerMemory = 95 << 20 },
	} {
		c := good
		spoil(&c)
		require.ErrorContains(t, c.Check(), want)
	}
}

// Every field has exactly one setting, and every flag sets its field to the default that the
// flag's help shows.
func TestEveryLimitIsASetting(t *testing.T) {
	load := Load{}.WithDefaults()
	require.Len(t, load.settings(), reflect.TypeFor[Load]().NumField())
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	load.Bind(flags)
	for i, s := range load.settings() {
		name := cmp.Or(s.name, "-")
		field, tagged := reflect.TypeFor[Load]().FieldByNameFunc(func(field string) bool {
			return reflect.ValueOf(&load).Elem().FieldByName(field).Addr().Interface() == s.field
		})
		require.True(t, tagged, i)
		require.Equal(t, name, field.Tag.Get("yaml"))
		require.Equal(t, s.name != "", flags.Lookup(s.name) != nil, name)
	}
	flags.VisitAll(func(f *pflag.Flag) { require.NoError(t, flags.Set(f.Name, f.DefValue), f.Name) })
	require.Equal(t, Load{}.WithDefaults(), load)
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
