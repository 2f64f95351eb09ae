package limits

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/spf13/pflag"

	"colophon/internal/size"
	"colophon/ledger/record"
)

// ServerLimits holds the limits on what clients can demand of a server, per second or at the same
// time. A zero field means the default. Each limit is a field here and a line in settings, which
// defines its default and its flag.
type ServerLimits struct {
	// RequestRate is the number of requests per second that an identity can make. Separately, its
	// batches can contain the same number of lines per second. A client without credentials is
	// identified by its address. 0 means unlimited.
	RequestRate float64 `yaml:"rate-limit"`
	// AddressRate is the number of requests per second that an IPv4 address, or the /64 network of
	// an IPv6 address, can make. 0 means unlimited.
	AddressRate float64 `yaml:"address-rate-limit"`
	// BurstDuration determines how many requests can arrive at once: as many as the rate limit allows
	// within this duration.
	BurstDuration time.Duration `yaml:"rate-burst"`
	// AuthFailureRate is the number of invalid credentials per second that an address can send after an
	// initial burst of AuthFailureBurst.
	AuthFailureRate float64 `yaml:"failed-auth-limit"`
	// BadRequestRate is the number of bad requests per second from one address that the server answers
	// without delay. The server delays its answers to further ones by at most MaxBadRequestDelay.
	BadRequestRate     float64       `yaml:"bad-request-limit"`
	MaxBadRequestDelay time.Duration `yaml:"-"` // longest delay of an answer to a bad request
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is trusted. The server
	// ignores this header in all other requests.
	TrustedProxies Networks `yaml:"trusted-proxies"`

	// MaxConnections limits the number of open connections. An address gets at most half of the
	// remaining ones; a trusted proxy can use all of them.
	MaxConnections int `yaml:"max-connections"`
	// MaxBodyMemory limits the memory for bodies of writes. A caller gets at most half of the
	// remaining memory.
	MaxBodyMemory size.Bytes `yaml:"max-body-memory"`
	// MaxAnswerMemory limits the memory for responses until they are sent, and for bodies of
	// requests that record nothing. A caller gets at most half of the remaining memory.
	MaxAnswerMemory size.Bytes `yaml:"max-answer-memory"`
	// MaxWait is the longest time that a request waits for memory, a core, or its turn.
	MaxWait time.Duration `yaml:"max-wait"`
	// MaxBatches limits the number of batches in progress. A caller gets at most half of the
	// remaining slots.
	MaxBatches int `yaml:"max-batches"`
	// MaxFollowers limits the number of clients that follow live events. A caller gets at most half
	// of the remaining slots.
	MaxFollowers int `yaml:"max-followers"`

	// MaxBatchSpool and MaxSpool limit the size of the temporary files that hold results until
	// clients read them: MaxBatchSpool for one batch, MaxSpool for all batches together.
	MaxBatchSpool size.Bytes `yaml:"max-spool"`
	MaxSpool      size.Bytes `yaml:"max-spools"` // for all batches together
	// SpoolBufferBytes limits how many bytes of the results of one batch are kept in memory for a slow
	// client. Further results go to a temporary file.
	SpoolBufferBytes int `yaml:"-"`

	MaxBodySize size.Bytes `yaml:"max-body"` // largest body of a request, except a batch
	MaxLineSize size.Bytes `yaml:"max-line"` // largest line of a batch
	MaxPageRows int        `yaml:"max-page"` // largest number of rows on a page
	// MaxSelectedRecords limits how many records the filter of a single redaction or state change can
	// select.
	MaxSelectedRecords int `yaml:"max-selected"`

	MaxLabels       int `yaml:"max-labels"`      // largest number of labels of a record
	MaxLabelBytes   int `yaml:"max-label-bytes"` // largest length, in bytes, of a label's name and of its value
	MaxRecordValues int `yaml:"max-values"`      // largest number of JSON values and member names of a record

	// BodyTimeout is how long the body of a request, except a batch, can take to arrive.
	BodyTimeout time.Duration `yaml:"body-timeout"`
	// BatchIdleTimeout is how long a batch waits for its client to send a line. It waits twice as
	// long for the client to read.
	BatchIdleTimeout time.Duration `yaml:"batch-idle"`
	// WriteTimeout is the time within which a client must read each piece of a response. A piece
	// has at most MaxWriteBytes bytes.
	WriteTimeout time.Duration `yaml:"write-timeout"`
	// IndexWait is how long a request waits for an index that lags behind.
	IndexWait time.Duration `yaml:"index-wait"`

	// FollowRate is how many bytes of live events are sent per second to all followers
	// together.
	FollowRate size.Bytes `yaml:"follow-rate"`
	// HeartbeatInterval is the time between two heartbeats to a follower, and between two checks of whether
	// the follower still has access.
	HeartbeatInterval time.Duration `yaml:"-"`
}

// setting describes a limit: its flag, its field, its default, and the help text of the flag. A
// limit without a name has no flag.
type setting struct {
	name   string
	field  any // pointer to a field of ServerLimits
	normal any // the default; nil means the zero value of the field
	help   string
}

// settings returns the settings of all limits, with pointers to the fields of l.
func (l *ServerLimits) settings() []setting {
	return []setting{
		{"rate-limit", &l.RequestRate, nil, "maximum `number` of requests per second by one identity, and of lines per second in its batches; 0 means no limit"},
		{"address-rate-limit", &l.AddressRate, nil, "maximum `number` of requests per second from one address; 0 means no limit"},
		{"rate-burst", &l.BurstDuration, 2 * time.Second, "`time` over which an idle client can save up requests under the two rate limits"},
		{"failed-auth-limit", &l.AuthFailureRate, 1, "maximum `number` of invalid credentials per second from one address, after the first 20"},
		{"bad-request-limit", &l.BadRequestRate, 100, "`number` of bad requests per second from one address (a bad write counts as five); beyond this rate, the server delays each response by up to a second"},
		{"", &l.MaxBadRequestDelay, time.Second, ""},
		{"trusted-proxies", &l.TrustedProxies, nil, "`networks` of proxies whose X-Forwarded-For is trusted, such as 10.0.0.0/8, separated by commas"},
		{"max-connections", &l.MaxConnections, 4096, "maximum `number` of open connections; one address gets at most half of the remaining ones, unless it is a trusted proxy"},
		{"max-body-memory", &l.MaxBodyMemory, 256 << 20, "maximum `size` of all bodies of writes at once; one identity gets at most half of the remaining memory"},
		{"max-answer-memory", &l.MaxAnswerMemory, 256 << 20, "maximum `size` of all responses that are built or sent at once; one identity gets at most half of the remaining memory"},
		{"max-wait", &l.MaxWait, 5 * time.Second, "maximum `time` that a request waits for memory, a core, or its turn, before the server refuses it with status 503"},
		{"max-batches", &l.MaxBatches, 128, "maximum `number` of batches at once; one identity gets at most half of the remaining ones"},
		{"max-followers", &l.MaxFollowers, 2048, "maximum `number` of clients that follow events at once; one identity gets at most half of the remaining ones"},
		{"max-spool", &l.MaxBatchSpool, 1 << 30, "maximum `size` of the unread results of one batch"},
		{"max-spools", &l.MaxSpool, int64(4 << 30), "maximum `size` of the unread results of all batches"},
		{"", &l.SpoolBufferBytes, 256 << 10, ""},
		{"max-body", &l.MaxBodySize, 8 << 20, "maximum `size` of a request's body"},
		{"max-line", &l.MaxLineSize, 8 << 20, "maximum `size` of a line of a batch"},
		{"max-page", &l.MaxPageRows, 1000, "maximum `number` of rows on a page"},
		{"max-selected", &l.MaxSelectedRecords, 100_000, "maximum `number` of records that the filter of one redaction or state change may select"},
		{"max-labels", &l.MaxLabels, record.DefaultLimits().MaxLabels, "maximum `number` of labels of a record"},
		{"max-label-bytes", &l.MaxLabelBytes, record.DefaultLimits().MaxLabelBytes, "maximum `length` of a label's name or value"},
		{"max-values", &l.MaxRecordValues, record.DefaultLimits().MaxJSONValues, "maximum `number` of JSON values and names in a record"},
		{"body-timeout", &l.BodyTimeout, time.Minute, "maximum `time` that the body of a request can take to arrive"},
		{"batch-idle", &l.BatchIdleTimeout, 2 * time.Minute, "maximum `time` that a batch waits for its client to send a line; the batch waits twice as long for the client to read the results"},
		{"write-timeout", &l.WriteTimeout, 30 * time.Second, "maximum `time` that a client can take to read each 64 KiB of a response"},
		{"index-wait", &l.IndexWait, 5 * time.Second, "maximum `time` that a request waits for an index that lags behind, before the server refuses it with status 503"},
		{"follow-rate", &l.FollowRate, 32 << 20, "maximum `size` of live events per second, for all followers together"},
		{"", &l.HeartbeatInterval, 15 * time.Second, ""},
	}
}

// WithDefaults returns a copy of l in which each zero field is set to its default.
func (l ServerLimits) WithDefaults() ServerLimits {
	for _, s := range l.settings() {
		if field := reflect.ValueOf(s.field).Elem(); field.IsZero() && s.normal != nil {
			field.Set(reflect.ValueOf(s.normal).Convert(field.Type()))
		}
	}
	return l
}

// Bind adds a flag to flags for every limit that an operator can set. The current values of the
// fields are the flags' defaults.
func (l *ServerLimits) Bind(flags *pflag.FlagSet) {
	for _, s := range l.settings() {
		if s.name == "" {
			continue
		}
		switch field := s.field.(type) {
		case *int:
			flags.IntVar(field, s.name, *field, s.help)
		case *float64:
			flags.Float64Var(field, s.name, *field, s.help)
		case *time.Duration:
			flags.DurationVar(field, s.name, *field, s.help)
		case interface {
			encoding.TextMarshaler
			encoding.TextUnmarshaler
		}:
			flags.TextVar(field, s.name, field, s.help)
		}
	}
}

// bodyFactor is the minimum size of the budget for bodies, as a multiple of the largest body or
// line. answerFactor is the same for the budget for answers. Each is twice the memory that the
// server needs for each byte, because a caller gets only half of the budget. answerFactor covers
// answers that include all of a record's content.
const (
	bodyFactor   = 8
	answerFactor = 12
)

// Check returns an error if the limits contradict each other or cannot be enforced.
func (l ServerLimits) Check() error {
	for _, s := range l.settings() {
		field := reflect.ValueOf(s.field).Elem()
		if field.CanInt() && field.Int() < 0 || field.CanFloat() && !(field.Float() >= 0) { // !(x >= 0) also refuses NaN
			return fmt.Errorf("%s: must not be negative", s.name)
		}
	}
	switch {
	case l.RequestRate > 0 && l.RequestRate < 1:
		return errors.New("rate-limit: must be at least 1 per second, or 0 for no limit")
	case l.AddressRate > 0 && l.AddressRate < 1:
		return errors.New("address-rate-limit: must be at least 1 per second, or 0 for no limit")
	case l.MaxPageRows < 1:
		return fmt.Errorf("max-page: must be at least 1, not %d", l.MaxPageRows)
	case l.MaxSelectedRecords < 1:
		return fmt.Errorf("max-selected: must be at least 1, not %d", l.MaxSelectedRecords)
	case l.MaxRecordValues > record.MaxValues:
		return fmt.Errorf("max-values: must be at most %d, not %d, because an audit refuses records with more values", record.MaxValues, l.MaxRecordValues)
	}
	largest := max(l.MaxBodySize, l.MaxLineSize)
	if err := atLeast("max-body-memory", l.MaxBodyMemory, bodyFactor, largest); err != nil {
		return err
	}
	return atLeast("max-answer-memory", l.MaxAnswerMemory, answerFactor, largest)
}

// atLeast returns an error if memory is less than factor times the largest body or line.
func atLeast(name string, memory size.Bytes, factor, largest size.Bytes) error {
	if need := factor * largest; memory < need {
		text, _ := need.MarshalText() // never fails
		return fmt.Errorf("%s: must be at least %s, %d times the largest body or line (--max-body, --max-line)", name, text, factor)
	}
	return nil
}

// RecordLimits returns the limits that apply to each record.
func (l ServerLimits) RecordLimits() record.Limits {
	return record.Limits{MaxLabels: l.MaxLabels, MaxLabelBytes: l.MaxLabelBytes, MaxJSONValues: l.MaxRecordValues}
}
