// Package limits restricts what clients can demand of a server. It limits connections, rates,
// memory, heavy work, and the time that a client can take to send a body or to read a response.
package limits

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"time"
)

// RefusalReason is the reason why a request or a line of a batch was refused, or a client was
// disconnected. It is used as a label value of the metric colophon_refusals_total.
type RefusalReason string

// The reasons for a refusal. docs/metrics.md explains each of them.
const (
	RefusedRate         RefusalReason = "rate"
	RefusedAddressRate  RefusalReason = "address_rate"
	RefusedCredentials  RefusalReason = "failed_authentications"
	RefusedConnections  RefusalReason = "connections"
	RefusedBodyMemory   RefusalReason = "body_memory"
	RefusedAnswerMemory RefusalReason = "answer_memory"
	RefusedBatches      RefusalReason = "batches"
	RefusedFollowers    RefusalReason = "followers"
	RefusedRedactions   RefusalReason = "redactions"
	RefusedSpool        RefusalReason = "spool"
	RefusedSize         RefusalReason = "size"
	RefusedURL          RefusalReason = "url"
	RefusedExpansion    RefusalReason = "decompression"
	RefusedSlowSender   RefusalReason = "slow_sender"
	RefusedSlowReader   RefusalReason = "slow_reader"
	RefusedQueueFull    RefusalReason = "queue"
	RefusedHeavyWork    RefusalReason = "heavy_work"
	RefusedDiskSpace    RefusalReason = "disk"
)

var RefusalReasons = [...]RefusalReason{RefusedRate, RefusedAddressRate, RefusedCredentials, RefusedConnections, RefusedBodyMemory, RefusedAnswerMemory, RefusedBatches,
	RefusedFollowers, RefusedRedactions, RefusedSpool, RefusedSize, RefusedURL, RefusedExpansion, RefusedSlowSender, RefusedSlowReader, RefusedQueueFull, RefusedHeavyWork, RefusedDiskSpace}

// RejectedError is returned when a request, or a line of a batch, is refused.
type RejectedError struct {
	Reason     RefusalReason // counted in the metrics unless it is empty
	Status     int           // status of the HTTP response
	RetryAfter time.Duration // time after which the client can retry, for status 429 or 503
	Detail     string
}

// Error implements error.
func (e *RejectedError) Error() string { return e.Detail }

// NewRejectedError returns a RejectedError. It formats the Detail like fmt.Sprintf.
func NewRejectedError(why RefusalReason, status int, wait time.Duration, format string, args ...any) *RejectedError {
	return &RejectedError{why, status, wait, fmt.Sprintf(format, args...)}
}

// Limits enforces ServerLimits.
type Limits struct {
	Config         ServerLimits
	Rates          *rates
	WriteMemory    *Budget // memory for bodies of writes
	ReadMemory     *Budget // memory for responses, and for bodies of requests that record nothing
	Connections    *connections
	BatchSlots     *slots
	FollowerSlots  *slots
	ScrapeSlots    *slots
	StreamSlots    *slots // limits concurrent HTTP/2 requests, in total and for each address
	RedactionTurns *turns
	HeavyWork      HeavyWork
	// ParseSlots holds a token for each chunk of a batch that is being parsed. It has one token
	// per core, so that the sequencer and the index never wait behind more chunks than that.
	ParseSlots      chan struct{}
	ReadScheduler   *ReadScheduler
	SpoolSpace      *SpoolSpace
	FollowerLimiter *FollowerLimiter
}

func New(load ServerLimits) *Limits {
	return &Limits{
		Config:          load,
		Rates:           newRates(load),
		WriteMemory:     NewBudget(int64(load.BodyMemory), load.MaxWait, RefusedBodyMemory, "bodies"),
		ReadMemory:      NewBudget(int64(load.AnswerMemory), load.MaxWait, RefusedAnswerMemory, "answers"),
		Connections:     newConnections(load),
		BatchSlots:      newSlots(load.Batches),
		FollowerSlots:   newSlots(load.Followers),
		ScrapeSlots:     newSlots(MaxScrapes),
		StreamSlots:     newSlots(load.Connections),
		RedactionTurns:  newTurns(load.MaxWait),
		ParseSlots:      make(chan struct{}, runtime.GOMAXPROCS(0)),
		HeavyWork:       newHeavyWork(max(2, runtime.GOMAXPROCS(0)/2), load.MaxWait),
		ReadScheduler:   NewReadScheduler(runtime.GOMAXPROCS(0), load.MaxWait),
		SpoolSpace:      &SpoolSpace{MaxBytes: int64(load.MaxSpool)},
		FollowerLimiter: NewFollowerLimiter(int64(load.FollowRate)),
	}
}

// SlowBodyRefusal returns a 408 RejectedError if err means that a body did not arrive in time, and nil
// otherwise.
func SlowBodyRefusal(err error, within time.Duration) *RejectedError {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return NewRejectedError(RefusedSlowSender, http.StatusRequestTimeout, 0, "the body did not arrive within %s", within)
}
