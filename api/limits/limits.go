// Package limits bounds how much clients may ask of a server: connections, rates, memory, heavy work,
// and the time to send a body or to read a response.
package limits

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"
)

// Load is how much clients may ask of a server, per second and at once. A zero field means its
// default.
type Load struct {
	// RequestRate is how many requests an identity may make per second, and how many lines its
	// batches may carry per second in addition. RateBurst is the time whose requests may
	// arrive at once, by default 2 seconds. A client without credentials is identified by its
	// address. 0, the default, means unlimited.
	RequestRate float64
	RateBurst   time.Duration
	// AddressRate is how many requests an address may make per second. 0, the default, means
	// unlimited.
	AddressRate float64
	// FailureRate is how many invalid credentials an address may send per second, after
	// FailureBurst of them. Default 1.
	FailureRate float64
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is trusted. It is
	// ignored in all other requests.
	TrustedProxies []*net.IPNet

	Connections int   // open at once; an address gets half of what is left; default 4,096
	BodyMemory  int64 // bytes held by bodies of writes; a caller gets half of what is left; default 256 MiB
	// AnswerMemory is the number of bytes held by responses until they are sent, and by bodies
	// of requests that record nothing. A caller gets half of what is left. Default 256 MiB.
	AnswerMemory int64
	Batches      int           // at once; default 128
	Followers    int           // clients that follow live events at once; default 2,048
	Wait         time.Duration // the longest that a request waits for memory, a core, or its turn; default 5 seconds

	// BatchSpool and Spool bound the temporary files with results that clients have not read,
	// in bytes: of one batch, and of all batches. Default 1 and 4 GiB.
	BatchSpool, Spool int64

	// BatchIdle is how long a batch waits for its client to send a line. It waits twice as
	// long for the client to read. Default 2 minutes.
	BatchIdle time.Duration
	// WriteTimeout is how long a client may take to read one piece of a response, of at most
	// MaxWrite bytes. Default 30 seconds.
	WriteTimeout time.Duration

	// FollowRate is how many bytes of live events are sent per second to all followers
	// together. Default 32 MiB.
	FollowRate int64
	// Heartbeat is the time between two heartbeats to a follower, and between two checks
	// whether the follower still has access. Default 15 seconds.
	Heartbeat time.Duration
}

func (l Load) WithDefaults() Load {
	setDefault(&l.RateBurst, 2*time.Second)
	setDefault(&l.FailureRate, 1)
	setDefault(&l.Connections, 4096)
	setDefault(&l.BodyMemory, 256<<20)
	setDefault(&l.AnswerMemory, 256<<20)
	setDefault(&l.Batches, 128)
	setDefault(&l.Followers, 2048)
	setDefault(&l.Wait, 5*time.Second)
	setDefault(&l.BatchSpool, 1<<30)
	setDefault(&l.Spool, 4<<30)
	setDefault(&l.BatchIdle, 2*time.Minute)
	setDefault(&l.WriteTimeout, 30*time.Second)
	setDefault(&l.FollowRate, 32<<20)
	setDefault(&l.Heartbeat, 15*time.Second)
	return l
}

func setDefault[T comparable](to *T, value T) {
	var unset T
	if *to == unset {
		*to = value
	}
}

// Reason is why a request or a line of a batch was refused, or a client disconnected: the
// label of the metric colophon_refusals_total.
type Reason string

// docs/metrics.md explains each reason.
const (
	RefusedRate        Reason = "rate"
	RefusedAddressRate Reason = "address_rate"
	RefusedCredentials Reason = "failed_authentications"
	RefusedConnections Reason = "connections"
	RefusedMemory      Reason = "body_memory"
	RefusedAnswers     Reason = "answer_memory"
	RefusedBatches     Reason = "batches"
	RefusedFollowers   Reason = "followers"
	RefusedRedactions  Reason = "redactions"
	RefusedSpool       Reason = "spool"
	RefusedSize        Reason = "size"
	RefusedURL         Reason = "url"
	RefusedExpansion   Reason = "decompression"
	RefusedSlowSender  Reason = "slow_sender"
	RefusedSlowReader  Reason = "slow_reader"
	RefusedQueue       Reason = "queue"
	RefusedHeavy       Reason = "heavy_work"
	RefusedDisk        Reason = "disk"
)

var Reasons = [...]Reason{RefusedRate, RefusedAddressRate, RefusedCredentials, RefusedConnections, RefusedMemory, RefusedAnswers, RefusedBatches,
	RefusedFollowers, RefusedRedactions, RefusedSpool, RefusedSize, RefusedURL, RefusedExpansion, RefusedSlowSender, RefusedSlowReader, RefusedQueue, RefusedHeavy, RefusedDisk}

// Refusal is the error of a request, or of a line of a batch, that is refused.
type Refusal struct {
	Reason Reason        // counted in the metrics; empty: not counted
	Status int           // of the HTTP response
	Wait   time.Duration // until the client may retry, for statuses 429 and 503
	Detail string
}

// Error implements error.
func (e *Refusal) Error() string { return e.Detail }

// Refuse returns the error of a request that is refused.
func Refuse(why Reason, status int, wait time.Duration, format string, args ...any) *Refusal {
	return &Refusal{why, status, wait, fmt.Sprintf(format, args...)}
}

// Limits enforces a Load.
type Limits struct {
	Load        Load
	Rates       *rates
	Writing     *Budget // for bodies of writes
	Reading     *Budget // for responses, and for bodies of requests that record nothing
	Connections *connections
	Batches     *slots
	Followers   *slots
	Scrapes     *slots
	Requests    *slots // over HTTP/2, by address
	Redactions  *turns
	Heavy       HeavyWork
	// Parsing holds a token for each chunk of a batch that is parsed, one per core, so that the
	// sequencer and the index wait for few.
	Parsing chan struct{}
	Reads   *ReadTurns
	Spools  *SpoolSpace
	Pace    *FollowPace
}

func New(load Load) *Limits {
	return &Limits{
		Load:        load,
		Rates:       newRates(load),
		Writing:     NewBudget(load.BodyMemory, load.Wait, RefusedMemory, "bodies"),
		Reading:     NewBudget(load.AnswerMemory, load.Wait, RefusedAnswers, "answers"),
		Connections: newConnections(load),
		Batches:     newSlots(load.Batches),
		Followers:   newSlots(load.Followers),
		Scrapes:     newSlots(MaxScrapes),
		Requests:    newSlots(load.Connections),
		Redactions:  newTurns(load.Wait),
		Parsing:     make(chan struct{}, runtime.GOMAXPROCS(0)),
		Heavy:       newHeavyWork(max(2, runtime.GOMAXPROCS(0)/2), load.Wait),
		Reads:       NewReadTurns(runtime.GOMAXPROCS(0), load.Wait),
		Spools:      &SpoolSpace{Limit: load.Spool},
		Pace:        NewFollowPace(load.FollowRate),
	}
}

// SlowBody returns a 408 Refusal if err means that a body did not arrive in time, otherwise
// nil.
func SlowBody(err error, within time.Duration) *Refusal {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return Refuse(RefusedSlowSender, http.StatusRequestTimeout, 0, "the body did not come within %s", within)
}
