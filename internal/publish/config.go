package publish

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"colophon/internal/publish/bucket"
	"colophon/ledger"
)

// Config says what to publish, and where.
type Config struct {
	// URL is the URL of the bucket (bucket.Open). Empty publishes nothing.
	URL string `yaml:"publish"`
	// Ledgers are published even if their logs are not public.
	Ledgers Names `yaml:"publish-ledgers"`
	// Every is the shortest time between two publications of a ledger.
	Every time.Duration `yaml:"publish-every"`
}

// Names are names of ledgers, separated by commas.
type Names []string

// UnmarshalText reads the names.
func (n *Names) UnmarshalText(text []byte) error {
	*n = nil
	if len(text) == 0 {
		return nil
	}
	for name := range strings.SplitSeq(string(text), ",") {
		name = strings.TrimSpace(name)
		if err := ledger.CheckName(name); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		if !slices.Contains(*n, name) {
			*n = append(*n, name)
		}
	}
	return nil
}

// MarshalText writes the names as UnmarshalText reads them.
func (n Names) MarshalText() ([]byte, error) { return []byte(strings.Join(n, ",")), nil }

// DefaultEvery is the default of Config.Every.
const DefaultEvery = time.Second

// Bind makes a flag of every field.
func (c *Config) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.URL, "publish", c.URL, "`URL` of a bucket that gets a copy of every public log: file:///folder, or s3://bucket/prefix?endpoint=URL&region=NAME with the credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	flags.TextVar(&c.Ledgers, "publish-ledgers", c.Ledgers, "`names`, separated by commas, of ledgers to publish although their logs are not public")
	flags.DurationVar(&c.Every, "publish-every", c.Every, "shortest `time` between two publications of a ledger")
}

// Check says what is wrong and what to do.
func (c Config) Check() error {
	if c.URL == "" {
		if len(c.Ledgers) > 0 {
			return errors.New("publish-ledgers: it needs publish, the URL of a bucket")
		}
		return nil
	}
	if err := bucket.Check(c.URL); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if c.Every < 0 {
		return fmt.Errorf("publish-every: %s is negative", c.Every)
	}
	return nil
}
