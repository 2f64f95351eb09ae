package server

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"colophon/api/limits"
	"colophon/internal/cli"
	"colophon/ledger/record"
)

// LoadConfig bounds what clients may ask of the server, per second and at once.
type LoadConfig struct {
	// RateLimit is the number of requests a second of one token or other identity, and the lines
	// of its batches; callers without an identity are identified by their address. 0 means no limit.
	RateLimit float64 `yaml:"rate-limit"`
	// AddressRateLimit is the number of requests a second of one address, or /64 of IPv6.
	AddressRateLimit float64 `yaml:"address-rate-limit"`
	// RateBurst sets how many requests may come at once: as many as the limit allows in this time.
	RateBurst time.Duration `yaml:"rate-burst"`
	// FailedAuthLimit is the number of invalid credentials a second that one address may send,
	// after the first 20. Beyond it, the server does not verify the address's credentials.
	FailedAuthLimit float64 `yaml:"failed-auth-limit"`
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is trusted.
	TrustedProxies networks `yaml:"trusted-proxies"`
	// MaxConnections bounds the open connections; an address gets half of what is left, a
	// trusted proxy all of it.
	MaxConnections int `yaml:"max-connections"`
	// MaxBodyMemory bounds the memory of the bodies of writes; an identity gets half of
	// what is left.
	MaxBodyMemory cli.Size `yaml:"max-body-memory"`
	// MaxAnswerMemory bounds the memory of answers until they are sent, and of the bodies
	// of requests that record nothing; an identity gets half of what is left.
	MaxAnswerMemory cli.Size `yaml:"max-answer-memory"`
	// MaxWait is how long a request waits for some of that memory, and a redaction for
	// its turn.
	MaxWait time.Duration `yaml:"max-wait"`
	// MaxBatches bounds the batches in progress; an identity gets half of what is left.
	MaxBatches int `yaml:"max-batches"`
	// MaxFollowers bounds the clients that follow events live.
	MaxFollowers int `yaml:"max-followers"`
	// MaxSpool bounds the temporary file of a batch whose client does not read.
	MaxSpool cli.Size `yaml:"max-spool"`
	// MaxSpools bounds the sum of all these files.
	MaxSpools cli.Size `yaml:"max-spools"`
	// MaxValues bounds the JSON values and member names of a record.
	MaxValues int `yaml:"max-values"`
	// BodyTimeout is how long the body of a request, except a batch, may take.
	BodyTimeout time.Duration `yaml:"body-timeout"`
	// BatchIdle is how long a batch waits for its client to send a line; it waits twice
	// as long for it to read.
	BatchIdle time.Duration `yaml:"batch-idle"`
	// WriteTimeout is how long a client may take to read 64 KiB of an answer.
	WriteTimeout time.Duration `yaml:"write-timeout"`
	// FollowRate is the number of bytes of live events a second that all followers share.
	FollowRate cli.Size `yaml:"follow-rate"`
}

func (c LoadConfig) withDefaults() LoadConfig {
	setDefault(&c.RateBurst, 2*time.Second)
	setDefault(&c.FailedAuthLimit, 1)
	setDefault(&c.MaxConnections, 4096)
	setDefault(&c.MaxBodyMemory, 256<<20)
	setDefault(&c.MaxAnswerMemory, 256<<20)
	setDefault(&c.MaxWait, 5*time.Second)
	setDefault(&c.MaxBatches, 128)
	setDefault(&c.MaxFollowers, 2048)
	setDefault(&c.MaxSpool, 1<<30)
	setDefault(&c.MaxSpools, 4<<30)
	setDefault(&c.MaxValues, record.DefaultLimits().Values)
	setDefault(&c.BodyTimeout, time.Minute)
	setDefault(&c.BatchIdle, 2*time.Minute)
	setDefault(&c.WriteTimeout, 30*time.Second)
	setDefault(&c.FollowRate, 32<<20)
	return c
}

// decodedFactor is twice the memory that a body takes for each of its bytes while it is
// processed, because one caller gets half of the memory.
const decodedFactor = 8

// validate returns an error that says what is wrong and what to do. largest is the size of the
// largest body or line.
func (c LoadConfig) validate(largest cli.Size) error {
	for name, value := range map[string]float64{
		"rate-limit": c.RateLimit, "address-rate-limit": c.AddressRateLimit, "failed-auth-limit": c.FailedAuthLimit,
		"rate-burst": c.RateBurst.Seconds(), "max-connections": float64(c.MaxConnections), "max-wait": c.MaxWait.Seconds(),
		"max-batches": float64(c.MaxBatches), "max-followers": float64(c.MaxFollowers), "max-values": float64(c.MaxValues),
		"body-timeout": c.BodyTimeout.Seconds(), "batch-idle": c.BatchIdle.Seconds(), "write-timeout": c.WriteTimeout.Seconds(),
	} {
		if !(value >= 0) { // also refuses NaN
			return fmt.Errorf("%s: must not be negative", name)
		}
	}
	for name, rate := range map[string]float64{"rate-limit": c.RateLimit, "address-rate-limit": c.AddressRateLimit} {
		if rate > 0 && rate < 1 {
			return fmt.Errorf("%s: must be at least 1 a second, or 0 for any number", name)
		}
	}
	if need := decodedFactor * largest; c.MaxBodyMemory < need {
		size, _ := need.MarshalText() // never fails
		return fmt.Errorf("max-body-memory: must be at least %s, %d times the largest body or line (--max-body, --max-line)", size, decodedFactor)
	}
	if need := answerFactor * largest; c.MaxAnswerMemory < need {
		size, _ := need.MarshalText() // never fails
		return fmt.Errorf("max-answer-memory: must be at least %s, %d times the largest body or line (--max-body, --max-line)", size, answerFactor)
	}
	return nil
}

// answerFactor is twice the memory that the answer with all of a record's content takes for each
// of its bytes while it is built.
const answerFactor = 12

// bind makes a flag of every field.
func (c *LoadConfig) bind(flags *pflag.FlagSet) {
	flags.Float64Var(&c.RateLimit, "rate-limit", c.RateLimit, "`number` of requests a second that an identity may make, and of lines a second that its batches may send; 0 means no limit")
	flags.Float64Var(&c.AddressRateLimit, "address-rate-limit", c.AddressRateLimit, "`number` of requests a second that may come from one address; 0 means no limit")
	flags.DurationVar(&c.RateBurst, "rate-burst", c.RateBurst, "`time` for which an idle client saves up requests under these two limits")
	flags.Float64Var(&c.FailedAuthLimit, "failed-auth-limit", c.FailedAuthLimit, "`number` of invalid credentials a second that an address may send, after 20 of them")
	flags.TextVar(&c.TrustedProxies, "trusted-proxies", c.TrustedProxies, "`networks` like 10.0.0.0/8, separated by commas, of proxies whose X-Forwarded-For is trusted")
	flags.IntVar(&c.MaxConnections, "max-connections", c.MaxConnections, "largest `number` of open connections; one address, unless it is a trusted proxy, gets half of what is left")
	flags.TextVar(&c.MaxBodyMemory, "max-body-memory", c.MaxBodyMemory, "largest `size` of all bodies of writes at once; one identity gets half of what is left")
	flags.TextVar(&c.MaxAnswerMemory, "max-answer-memory", c.MaxAnswerMemory, "largest `size` of all answers that are built or sent at once; one identity gets half of what is left")
	flags.DurationVar(&c.MaxWait, "max-wait", c.MaxWait, "`time` that a request waits for memory, or a redaction for its turn, before it gets 503")
	flags.IntVar(&c.MaxBatches, "max-batches", c.MaxBatches, "largest `number` of batches at once; one identity gets half of what is left")
	flags.IntVar(&c.MaxFollowers, "max-followers", c.MaxFollowers, "largest `number` of clients that follow events at once; one identity gets half of what is left")
	flags.TextVar(&c.MaxSpool, "max-spool", c.MaxSpool, "largest `size` of the results of a batch that its client has not read")
	flags.TextVar(&c.MaxSpools, "max-spools", c.MaxSpools, "largest `size` of the unread results of all batches")
	flags.IntVar(&c.MaxValues, "max-values", c.MaxValues, "largest `number` of JSON values and names in a record")
	flags.DurationVar(&c.BodyTimeout, "body-timeout", c.BodyTimeout, "`time` that the body of a request may take to arrive")
	flags.DurationVar(&c.BatchIdle, "batch-idle", c.BatchIdle, "`time` that a batch waits for its client to send a line; it waits twice as long for the client to read")
	flags.DurationVar(&c.WriteTimeout, "write-timeout", c.WriteTimeout, "`time` that a client may take to read each 64 KiB of an answer")
	flags.TextVar(&c.FollowRate, "follow-rate", c.FollowRate, "`size` of the live events that are sent per second to all followers together")
}

// limits returns the limits in the form of the API server.
func (c LoadConfig) limits() limits.Load {
	return limits.Load{
		RequestRate: c.RateLimit, RateBurst: c.RateBurst, AddressRate: c.AddressRateLimit, FailureRate: c.FailedAuthLimit,
		TrustedProxies: c.TrustedProxies, Connections: c.MaxConnections, BodyMemory: int64(c.MaxBodyMemory), AnswerMemory: int64(c.MaxAnswerMemory), Wait: c.MaxWait,
		Batches: c.MaxBatches, Followers: c.MaxFollowers, BatchSpool: int64(c.MaxSpool), Spool: int64(c.MaxSpools),
		BatchIdle: c.BatchIdle, WriteTimeout: c.WriteTimeout, FollowRate: int64(c.FollowRate),
	}
}

// networks is a list of networks in CIDR notation, separated by commas.
type networks []*net.IPNet

// UnmarshalText reads what MarshalText writes; a lone address is a network too.
func (n *networks) UnmarshalText(text []byte) error {
	*n = nil
	if len(text) == 0 {
		return nil
	}
	for name := range strings.SplitSeq(string(text), ",") {
		name = strings.TrimSpace(name)
		if ip := net.ParseIP(name); ip != nil && ip.To4() != nil {
			name += "/32"
		} else if ip != nil {
			name += "/128"
		}
		_, network, err := net.ParseCIDR(name)
		if err != nil {
			return fmt.Errorf("%q is not a network; write it like 10.0.0.0/8; separate several with commas", name)
		}
		*n = append(*n, network)
	}
	return nil
}

// MarshalText returns the networks, separated by commas.
func (n networks) MarshalText() ([]byte, error) {
	names := make([]string, len(n))
	for i, network := range n {
		names[i] = network.String()
	}
	return []byte(strings.Join(names, ",")), nil
}
