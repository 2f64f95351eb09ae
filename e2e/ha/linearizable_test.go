package ha_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// step is an operation on a log. For an append, at is the seq of the event; for a read, it is the length of
// the log that the read saw.
type step struct {
	append bool
	at     uint64
}

// logModel models an append-only log that initially has the given length.
func logModel(length uint64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return length },
		Step: func(state, input, _ any) (bool, any) {
			s, length := input.(step), state.(uint64)
			if s.append {
				return s.at == length, length + 1
			}
			return s.at == length, length
		},
	}
}

// operations returns the history in porcupine's format. Every append in it has a known outcome, because
// clients repeat an append until it is acknowledged.
func (h *history) operations(begin time.Time) (all []porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.appends {
		all = append(all, porcupine.Operation{Input: step{true, a.receipt.Seq}, Call: a.sent.Sub(begin).Nanoseconds(), Return: a.answered.Sub(begin).Nanoseconds()})
	}
	for _, r := range h.reads {
		all = append(all, porcupine.Operation{Input: step{false, r.size}, Call: r.sent.Sub(begin).Nanoseconds(), Return: r.answered.Sub(begin).Nanoseconds()})
	}
	return all
}

// window is the number of operations that porcupine checks together. The time of a check grows with the square
// of this number.
const window = 2000

// linearizable returns an error if the history of a log is not linearizable. The seqs determine the order of
// all operations, so two checks suffice. The loop checks the whole history for an operation that begins
// after a later one has ended. porcupine checks that each window is linearizable.
func linearizable(all []porcupine.Operation) error {
	order := func(o porcupine.Operation) uint64 { // a read that sees a length comes before the append that changes the length
		s := o.Input.(step)
		if s.append {
			return 2*s.at + 1
		}
		return 2 * s.at
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b porcupine.Operation) int {
		if a, b := order(a), order(b); a != b {
			return int(int64(a) - int64(b))
		}
		return int(a.Call - b.Call)
	})
	var earliest *porcupine.Operation // the operation that returned first, among those later in the order
	for i := len(all) - 1; i >= 0; i-- {
		if o := &all[i]; earliest != nil && order(*earliest) > order(*o) && earliest.Return < o.Call {
			return fmt.Errorf("%+v ended before %+v began", *earliest, *o)
		}
		if earliest == nil || all[i].Return < earliest.Return {
			earliest = &all[i]
		}
	}
	for part := range slices.Chunk(all, window) {
		if !porcupine.CheckOperations(logModel(part[0].Input.(step).at), part) {
			return fmt.Errorf("the operations from %+v to %+v are not linearizable", part[0], part[len(part)-1])
		}
	}
	return nil
}

// linearizable detects a stale read, a read of a length that the log does not have yet, and appends in the
// wrong order.
func TestLinearizable(t *testing.T) {
	appended := func(seq uint64, call, end int64) porcupine.Operation {
		return porcupine.Operation{Input: step{true, seq}, Call: call, Return: end}
	}
	saw := func(size uint64, call, end int64) porcupine.Operation {
		return porcupine.Operation{Input: step{false, size}, Call: call, Return: end}
	}
	require.NoError(t, linearizable([]porcupine.Operation{appended(1, 0, 10), appended(2, 5, 8), saw(3, 6, 9), saw(3, 7, 20), appended(3, 15, 20)}))
	require.Error(t, linearizable([]porcupine.Operation{appended(1, 0, 10), appended(2, 11, 15), saw(2, 16, 17)}), "past")
	require.Error(t, linearizable([]porcupine.Operation{appended(1, 0, 10), saw(3, 11, 12), appended(2, 13, 15)}), "future")
	require.Error(t, linearizable([]porcupine.Operation{appended(2, 0, 10), appended(1, 11, 15)}), "order")
	require.Error(t, linearizable([]porcupine.Operation{appended(1, 0, 10), appended(1, 0, 10)}), "twice")
	require.Error(t, linearizable([]porcupine.Operation{appended(1, 0, 10), appended(3, 0, 10)}), "an event is missing")
}
