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

// Load is how much clients may ask of a server, a second and at once. A zero field
// means its default.
type Load struct {
	// RequestRate is how many requests an identity may make a second, and how many
	// lines its batches may bring a second besides; RateBurst is the time whose
	// requests may come at once, by default 2 seconds. Who has no credentials is
	// known by his address. 0, the default, means any number.
	RequestRate float64
	RateBurst   time.Duration
	// AddressRate is how many requests may come from an address a second. 0, the
	// default, means any number.
	AddressRate float64
	// FailureRate is how many credentials that are not valid an address may send a
	// second, after FailureBurst of them. Default 1.
	FailureRate float64
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is believed.
	// The requests of all others come from the address that they come from.
	TrustedProxies []*net.IPNet

	Connections int   // open at once, an address half of what is left; default 4,096
	BodyMemory  int64 // bytes that bodies of writes take, a caller half of what is left; default 256 MiB
	// AnswerMemory is the bytes that answers take until they are sent, and the bodies of
	// requests that record nothing. A caller gets half of what is left. Default 256 MiB.
	AnswerMemory int64
	Batches      int           // at once; default 128
	Followers    int           // of live events at once; default 2,048
	Wait         time.Duration // of a request for memory, a core or its turn; default 5 seconds

	// BatchSpool and Spool bound, in bytes, the results in temporary files that a
	// batch's client, and that all of them, have not read. Default 1 and 4 GiB.
	BatchSpool, Spool int64

	// BatchIdle is how long a batch waits for its client to send a line; it waits twice
	// as long for it to read. Default 2 minutes.
	BatchIdle time.Duration
	// WriteTimeout is how long a client may take to read a piece of an answer, of
	// at most 64 KiB. Default 30 seconds.
	WriteTimeout time.Duration

	// FollowRate is how many bytes of live events are sent a second to all
	// followers together. Default 32 MiB.
	FollowRate int64
	// Heartbeat is the time between signs of life to a follower, and after which it
	// is looked whether he may still follow. Default 15 seconds.
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

// Reason is why a request, a line of a batch or a client was refused or dropped,
// as metrics have it.
type Reason string

// The refusals; docs/metrics.md explains each.
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

// Limits are what a server keeps to hold its clients within Load.
type Limits struct {
	Load        Load
	Rates       *rates
	Writing     *Budget // what bodies of writes hold
	Reading     *Budget // what answers hold, and bodies of requests that record nothing
	Connections *connections
	Batches     *slots
	Followers   *slots
	Scrapes     *slots
	Requests    *slots // over HTTP/2, by address
	Redactions  *turns
	Heavy       HeavyWork
	Spools      *SpoolSpace
	Pace        *FollowPace
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
		Heavy:       newHeavyWork(max(2, runtime.GOMAXPROCS(0)/2), load.Wait),
		Spools:      &SpoolSpace{Limit: load.Spool},
		Pace:        NewFollowPace(load.FollowRate),
	}
}

// SlowBody is the answer to whoever did not send in time; nil if that is not what
// err says.
func SlowBody(err error, within time.Duration) *Refusal {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return Refuse(RefusedSlowSender, http.StatusRequestTimeout, 0, "the body did not come within %s", within)
}
