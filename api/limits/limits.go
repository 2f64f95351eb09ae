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
	ReasonRate         RefusalReason = "rate"
	ReasonAddressRate  RefusalReason = "address_rate"
	ReasonCredentials  RefusalReason = "failed_authentications"
	ReasonConnections  RefusalReason = "connections"
	ReasonBodyMemory   RefusalReason = "body_memory"
	ReasonAnswerMemory RefusalReason = "answer_memory"
	ReasonBatches      RefusalReason = "batches"
	ReasonFollowers    RefusalReason = "followers"
	ReasonRedactions   RefusalReason = "redactions"
	ReasonSpool        RefusalReason = "spool"
	ReasonSize         RefusalReason = "size"
	ReasonURL          RefusalReason = "url"
	ReasonExpansion    RefusalReason = "decompression"
	ReasonSlowSender   RefusalReason = "slow_sender"
	ReasonSlowReader   RefusalReason = "slow_reader"
	ReasonQueueFull    RefusalReason = "queue"
	ReasonHeavyWork    RefusalReason = "heavy_work"
	ReasonDiskSpace    RefusalReason = "disk"
)

var RefusalReasons = [...]RefusalReason{ReasonRate, ReasonAddressRate, ReasonCredentials, ReasonConnections, ReasonBodyMemory, ReasonAnswerMemory, ReasonBatches,
	ReasonFollowers, ReasonRedactions, ReasonSpool, ReasonSize, ReasonURL, ReasonExpansion, ReasonSlowSender, ReasonSlowReader, ReasonQueueFull, ReasonHeavyWork, ReasonDiskSpace}

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

// Limiter enforces ServerLimits.
type Limiter struct {
	Config         ServerLimits
	Rates          *rates
	WriteMemory    *MemoryBudget // memory for bodies of writes
	ReadMemory     *MemoryBudget // memory for responses, and for bodies of requests that record nothing
	Connections    *connections
	BatchSlots     *slots
	FollowerSlots  *slots
	ScrapeSlots    *slots
	StreamSlots    *slots // limits concurrent HTTP/2 requests, in total and for each address
	RedactionTurns *turns
	HeavyWork      HeavyWorkLimiter
	// ParseSlots holds a token for each chunk of a batch that is being parsed. It has one token
	// per core, so that the sequencer and the index never wait behind more chunks than that.
	ParseSlots      chan struct{}
	ReadScheduler   *ReadScheduler
	SpoolSpace      *SpoolSpace
	FollowerLimiter *FollowerLimiter
}

func New(load ServerLimits) *Limiter {
	return &Limiter{
		Config:          load,
		Rates:           newRates(load),
		WriteMemory:     NewMemoryBudget(int64(load.MaxBodyMemory), load.MaxWait, ReasonBodyMemory, "bodies"),
		ReadMemory:      NewMemoryBudget(int64(load.MaxAnswerMemory), load.MaxWait, ReasonAnswerMemory, "answers"),
		Connections:     newConnections(load),
		BatchSlots:      newSlots(load.MaxBatches),
		FollowerSlots:   newSlots(load.MaxFollowers),
		ScrapeSlots:     newSlots(MaxScrapes),
		StreamSlots:     newSlots(load.MaxConnections),
		RedactionTurns:  newTurns(load.MaxWait),
		ParseSlots:      make(chan struct{}, runtime.GOMAXPROCS(0)),
		HeavyWork:       newHeavyWorkLimiter(max(2, runtime.GOMAXPROCS(0)/2), load.MaxWait),
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
	return NewRejectedError(ReasonSlowSender, http.StatusRequestTimeout, 0, "the body did not arrive within %s", within)
}
