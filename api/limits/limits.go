// Package limits limits what clients can demand of a server: connections, rates, memory, heavy
// work, and the time to send a body or to read a response.
package limits

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"time"
)

// Reason is the reason why a request or a line of a batch was refused, or a client was
// disconnected. It is the label of the metric colophon_refusals_total.
type Reason string

// The reasons. docs/metrics.md explains each of them.
const (
	RefusedRate         Reason = "rate"
	RefusedAddressRate  Reason = "address_rate"
	RefusedCredentials  Reason = "failed_authentications"
	RefusedConnections  Reason = "connections"
	RefusedBodyMemory   Reason = "body_memory"
	RefusedAnswerMemory Reason = "answer_memory"
	RefusedBatches      Reason = "batches"
	RefusedFollowers    Reason = "followers"
	RefusedRedactions   Reason = "redactions"
	RefusedSpool        Reason = "spool"
	RefusedSize         Reason = "size"
	RefusedURL          Reason = "url"
	RefusedExpansion    Reason = "decompression"
	RefusedSlowSender   Reason = "slow_sender"
	RefusedSlowReader   Reason = "slow_reader"
	RefusedQueue        Reason = "queue"
	RefusedHeavy        Reason = "heavy_work"
	RefusedDisk         Reason = "disk"
)

var Reasons = [...]Reason{RefusedRate, RefusedAddressRate, RefusedCredentials, RefusedConnections, RefusedBodyMemory, RefusedAnswerMemory, RefusedBatches,
	RefusedFollowers, RefusedRedactions, RefusedSpool, RefusedSize, RefusedURL, RefusedExpansion, RefusedSlowSender, RefusedSlowReader, RefusedQueue, RefusedHeavy, RefusedDisk}

// Refusal is the error of a request, or of a line of a batch, that is refused.
type Refusal struct {
	Reason Reason        // counted in the metrics; empty: not counted
	Status int           // status of the HTTP response
	Wait   time.Duration // time after which the client can retry, for statuses 429 and 503
	Detail string
}

// Error implements error.
func (e *Refusal) Error() string { return e.Detail }

// NewRefusal returns the error of a request that is refused.
func NewRefusal(why Reason, status int, wait time.Duration, format string, args ...any) *Refusal {
	return &Refusal{why, status, wait, fmt.Sprintf(format, args...)}
}

// Limits enforces ServerLimits.
type Limits struct {
	Load        ServerLimits
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
	// Parsing holds a token for each chunk of a batch that is being parsed. It has one token
	// per core, so that the sequencer and the index never wait behind more chunks than that.
	Parsing chan struct{}
	Reads   *ReadScheduler
	Spools  *SpoolSpace
	Pace    *FollowerLimiter
}

func New(load ServerLimits) *Limits {
	return &Limits{
		Load:        load,
		Rates:       newRates(load),
		Writing:     NewBudget(int64(load.BodyMemory), load.Wait, RefusedBodyMemory, "bodies"),
		Reading:     NewBudget(int64(load.AnswerMemory), load.Wait, RefusedAnswerMemory, "answers"),
		Connections: newConnections(load),
		Batches:     newSlots(load.Batches),
		Followers:   newSlots(load.Followers),
		Scrapes:     newSlots(MaxScrapes),
		Requests:    newSlots(load.Connections),
		Redactions:  newTurns(load.Wait),
		Parsing:     make(chan struct{}, runtime.GOMAXPROCS(0)),
		Heavy:       newHeavyWork(max(2, runtime.GOMAXPROCS(0)/2), load.Wait),
		Reads:       NewReadScheduler(runtime.GOMAXPROCS(0), load.Wait),
		Spools:      &SpoolSpace{Limit: int64(load.Spool)},
		Pace:        NewFollowerLimiter(int64(load.FollowRate)),
	}
}

// SlowBodyRefusal returns a 408 Refusal if err means that a body did not arrive in time, otherwise
// nil.
func SlowBodyRefusal(err error, within time.Duration) *Refusal {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return NewRefusal(RefusedSlowSender, http.StatusRequestTimeout, 0, "the body did not arrive within %s", within)
}
