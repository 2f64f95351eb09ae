package api

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/labstack/echo/v4"
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
	// second, after failureBurst of them. Default 1.
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

func (l Load) withDefaults() Load {
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

// refusal is why a request, a line of a batch or a client was refused or dropped,
// as metrics have it.
type refusal string

// The refusals; docs/metrics.md explains each.
const (
	refusedRate        refusal = "rate"
	refusedAddressRate refusal = "address_rate"
	refusedGuesses     refusal = "failed_authentications"
	refusedConnections refusal = "connections"
	refusedMemory      refusal = "body_memory"
	refusedAnswers     refusal = "answer_memory"
	refusedBatches     refusal = "batches"
	refusedFollowers   refusal = "followers"
	refusedRedactions  refusal = "redactions"
	refusedSpool       refusal = "spool"
	refusedSize        refusal = "size"
	refusedURL         refusal = "url"
	refusedExpansion   refusal = "decompression"
	refusedSlowSender  refusal = "slow_sender"
	refusedSlowReader  refusal = "slow_reader"
	refusedQueue       refusal = "queue"
	refusedHeavy       refusal = "heavy_work"
	refusedDisk        refusal = "disk"
)

var refusals = [...]refusal{refusedRate, refusedAddressRate, refusedGuesses, refusedConnections, refusedMemory, refusedAnswers, refusedBatches,
	refusedFollowers, refusedRedactions, refusedSpool, refusedSize, refusedURL, refusedExpansion, refusedSlowSender, refusedSlowReader, refusedQueue, refusedHeavy, refusedDisk}

// refuse is a fault that protects the server, and is counted as such. Whoever gets
// 429 or 503 is to wait that long before he tries again, at least a second.
func refuse(why refusal, status int, wait time.Duration, format string, args ...any) *problem {
	p := fault(status, format, args...)
	p.why, p.wait = why, wait
	return p
}

// seconds is a wait as Retry-After has it.
func seconds(wait time.Duration) string {
	return decimal(uint64(max(1, math.Ceil(wait.Seconds()))))
}

// bounds are what a server keeps to hold its clients within Load.
type bounds struct {
	load        Load
	rates       *rates
	writing     *memoryBudget // what bodies of writes hold
	reading     *memoryBudget // what answers hold, and bodies of requests that record nothing
	connections *connections
	batches     *slots
	followers   *slots
	scrapes     *slots
	requests    *slots // over HTTP/2, by address
	redactions  *turns
	heavy       heavyWork
	spools      *spoolSpace
	pace        *followPace
}

func newBounds(load Load) *bounds {
	return &bounds{
		load:        load,
		rates:       newRates(load),
		writing:     newMemoryBudget(load.BodyMemory, load.Wait, refusedMemory, "bodies"),
		reading:     newMemoryBudget(load.AnswerMemory, load.Wait, refusedAnswers, "answers"),
		connections: newConnections(load),
		batches:     newSlots(load.Batches),
		followers:   newSlots(load.Followers),
		scrapes:     newSlots(maxScrapes),
		requests:    newSlots(load.Connections),
		redactions:  newTurns(load.Wait),
		heavy:       newHeavyWork(max(2, runtime.GOMAXPROCS(0)/2), load.Wait),
		spools:      &spoolSpace{limit: load.Spool},
		pace:        newFollowPace(load.FollowRate),
	}
}

// admit refuses what can be refused before anybody knows who asks: requests on
// connections beyond the bound, of a strange form, or too many of one address.
func (s *Server) admit(c echo.Context) error {
	r := c.Request()
	beyond, last := crowded(r)
	if last {
		c.Response().Header().Set(echo.HeaderConnection, "close")
	}
	if operational(c.Path()) {
		return nil
	}
	if beyond {
		return refuse(refusedConnections, http.StatusServiceUnavailable, 0,
			"too many connections are open, of this address or of all (%d); try again later", s.limits.load.Connections)
	}
	if err := checkURL(r.URL); err != nil {
		return err
	}
	if r.ProtoMajor > 1 && !c.(*call).takeStream() {
		return refuse(refusedConnections, http.StatusServiceUnavailable, time.Second,
			"too many requests over HTTP/2 are under way, of this address or of all (%d); try again later", s.limits.load.Connections)
	}
	return s.limits.rates.ofAddress(func() netip.Prefix { return s.address(c) })
}

// operational are the routes by which a server is watched, above all when too much
// is asked of it.
func operational(route string) bool {
	return route == "/healthz" || route == "/readyz" || route == "/metrics"
}

// slowSender is the answer to whoever did not send in time; nil if that is not what
// err says.
func slowSender(err error, within time.Duration) *problem {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return refuse(refusedSlowSender, http.StatusRequestTimeout, 0, "the body did not come within %s", within)
}

// gone says that nobody waits for an answer any more.
func gone(ctx context.Context) bool { return ctx.Err() != nil }
