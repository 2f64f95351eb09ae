package faults_test

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// tally counts what happened in a round of faults.
type tally struct {
	faults   map[string]int // number of injected faults, keyed by kind
	receipts int            // number of receipts that were compared with the log
	ended    int            // number of processes that exited because of a fault
}

func (t *tally) add(other tally) {
	if t.faults == nil {
		t.faults = make(map[string]int)
	}
	for name, n := range other.faults {
		t.faults[name] += n
	}
	t.receipts += other.receipts
	t.ended += other.ended
}

// sum returns the total number of injected faults.
func (t *tally) sum() (n int) {
	for _, injected := range t.faults {
		n += injected
	}
	return n
}

// A round injects faults into a new test server and calls the oracle after each fault. It returns
// an error if the server broke a guarantee, for example by losing a record.
type round func(t *testing.T, r *rand.Rand, name string) (tally, error)

// lanes is the number of rounds that run at the same time.
const lanes = 2

// campaign runs rounds until they have injected the requested number of faults.
func campaign(t *testing.T, one round) {
	t.Helper()
	kind := strings.TrimPrefix(t.Name(), "Test")
	var mu sync.Mutex // guards the variables below
	var sum tally
	var next, rounds int
	if settings.round >= 0 {
		next = settings.round
	}
	began, printed := time.Now(), time.Now()
	begin := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if sum.sum() >= settings.faults || t.Failed() || settings.round >= 0 && next > settings.round {
			return 0, false
		}
		next++
		return next - 1, true
	}
	end := func(number int, done tally, err error) {
		mu.Lock()
		defer mu.Unlock()
		sum.add(done)
		rounds++
		if err != nil {
			t.Errorf("%s, FAULTS_SEED=%d FAULTS_ROUND=%d: %v", kind, settings.seed, number, err)
		}
		if time.Since(printed) > 10*time.Second {
			printed = time.Now()
			fmt.Fprintf(os.Stderr, "%s: %d of %d faults\n", kind, sum.sum(), settings.faults)
		}
	}
	var group sync.WaitGroup
	for range lanes {
		group.Go(func() {
			for number, more := begin(); more; number, more = begin() {
				done, err := one(t, dice(kind, number), fmt.Sprintf("%s/%d", kind, number))
				end(number, done, err)
			}
		})
	}
	group.Wait()
	t.Logf("%s: %d faults in %d rounds, %d receipts confirmed, %d processes ended, seed %d, %s",
		kind, sum.sum(), rounds, sum.receipts, sum.ended, settings.seed, time.Since(began).Round(time.Second))
	for _, name := range slices.Sorted(maps.Keys(sum.faults)) {
		t.Logf("%8d %s", sum.faults[name], name)
	}
}

// dice returns the random number generator for a round. It depends only on the seed, the kind, and
// the number of the round.
func dice(kind string, number int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", kind, number)
	return rand.New(rand.NewPCG(settings.seed, h.Sum64())) // #nosec G404 -- cases of tests
}
