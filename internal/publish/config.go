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

// Settings specifies what to publish and where.
type Settings struct {
	// BucketURL is the URL of the bucket (see bucket.Open). If it is empty, nothing is
	// published.
	BucketURL string `yaml:"publish"`
	// PublishedLedgers lists the ledgers that are published even if their logs are not public.
	PublishedLedgers LedgerNames `yaml:"publish-ledgers"`
	// PublishInterval is the minimum time between two publications of a ledger.
	PublishInterval time.Duration `yaml:"publish-every"`
	// ArchiveOldEntries allows the server to remove entries from the database once they are in the
	// bucket.
	ArchiveOldEntries bool `yaml:"archive"`
	// RetainedEntries is the number of each ledger's newest entries that always stay in the
	// database.
	RetainedEntries uint64 `yaml:"archive-after"`
}

// LedgerNames is a list of ledger names. In its text form, the names are separated by commas.
type LedgerNames []string

// UnmarshalText implements encoding.TextUnmarshaler. It rejects invalid names and drops duplicates.
func (n *LedgerNames) UnmarshalText(text []byte) error {
	*n = nil
	if len(text) == 0 {
		return nil
	}
	for name := range strings.SplitSeq(string(text), ",") {
		name = strings.TrimSpace(name)
		if err := ledger.CheckName(name); err != nil {
			return fmt.Errorf("%q is not a valid ledger name: %w", name, err)
		}
		if !slices.Contains(*n, name) {
			*n = append(*n, name)
		}
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (n LedgerNames) MarshalText() ([]byte, error) { return []byte(strings.Join(n, ",")), nil }

// DefaultRetainedEntries is the number of each ledger's newest entries that stay in the database by
// default; see Settings.RetainedEntries.
const DefaultRetainedEntries = 10_000_000

// DefaultInterval is the default of Settings.PublishInterval.
const DefaultInterval = time.Second

// Bind defines a flag for every field.
func (s *Settings) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&s.BucketURL, "publish", s.BucketURL, "`URL` of a bucket that gets a copy of every public log: file:///folder, s3://bucket/prefix?endpoint=URL&region=NAME with the credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, gs://bucket/prefix, or azblob://container/prefix")
	flags.TextVar(&s.PublishedLedgers, "publish-ledgers", s.PublishedLedgers, "`names`, separated by commas, of ledgers to publish even though their logs are not public")
	flags.DurationVar(&s.PublishInterval, "publish-every", s.PublishInterval, "shortest `time` between two publications of a ledger")
	flags.BoolVar(&s.ArchiveOldEntries, "archive", s.ArchiveOldEntries, "remove old entries of published ledgers from the database, once their copies in the bucket of --publish are verified, and read these entries from the bucket")
	flags.Uint64Var(&s.RetainedEntries, "archive-after", s.RetainedEntries, "with --archive, the `number` of newest entries of each ledger that stay in the database")
}

// Check returns an error if a setting is invalid. The error names the setting and says how to
// correct it.
func (s Settings) Check() error {
	if s.BucketURL == "" && s.ArchiveOldEntries {
		return errors.New("archive: requires the setting publish, which must be the URL of a bucket")
	}
	if s.BucketURL == "" {
		if len(s.PublishedLedgers) > 0 {
			return errors.New("publish-ledgers: requires the setting publish, which must be the URL of a bucket")
		}
		return nil
	}
	if err := bucket.CheckURL(s.BucketURL); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if s.PublishInterval < 0 {
		return fmt.Errorf("publish-every: %s is negative", s.PublishInterval)
	}
	return nil
}
