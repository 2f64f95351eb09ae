// Package seqs implements sets and lists of event numbers. Redactions use the lists to identify the
// redacted records (spec: Redactions).
package seqs

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// These limits apply to a List. They guarantee that an event with the longest list and the longest
// reason still fits into a log entry.
const (
	MaxListLen   = 4096     // maximum number of event numbers
	MaxJSONBytes = 32 << 10 // maximum length of the JSON in bytes
)

// List is an ascending list of event numbers. A content_redacted event contains it as an array. In
// that array, `7` is one event, and `[9,12]` is a range of two or more events, including both ends.
// The zero List is empty; an event never contains an empty list.
type List struct {
	ranges []seqRange
	count  int
	bytes  int // length of the JSON in bytes, without the outer brackets but with a comma after each element
}

// seqRange is the range of events from first to last, inclusive.
type seqRange struct{ first, last uint64 }

// bytes returns the length of the range's JSON in bytes, including a comma after it.
func (r seqRange) bytes() int {
	if r.first == r.last {
		return len(strconv.FormatUint(r.first, 10)) + len(",")
	}
	return len(strconv.FormatUint(r.first, 10)) + len(strconv.FormatUint(r.last, 10)) + len("[,],")
}

// Append appends seq, which must be greater than all the numbers in the list. If the list is full,
// Append leaves it unchanged and returns false.
func (l *List) Append(seq uint64) bool {
	next, added := seqRange{seq, seq}, 0
	extends := len(l.ranges) > 0 && l.ranges[len(l.ranges)-1].last+1 == seq
	if extends {
		last := l.ranges[len(l.ranges)-1]
		next.first = last.first
		added = -last.bytes()
	}
	added += next.bytes()
	if l.count == MaxListLen || l.bytes+added > MaxJSONBytes {
		return false
	}
	if extends {
		l.ranges = l.ranges[:len(l.ranges)-1]
	}
	l.ranges = append(l.ranges, next)
	l.count++
	l.bytes += added
	return true
}

// Len returns the number of event numbers in the list.
func (l *List) Len() int { return l.count }

// Last returns the greatest number in the list, or 0 if the list is empty.
func (l *List) Last() uint64 {
	if len(l.ranges) == 0 {
		return 0
	}
	return l.ranges[len(l.ranges)-1].last
}

// Has reports whether seq is in the list.
func (l *List) Has(seq uint64) bool {
	i := sort.Search(len(l.ranges), func(i int) bool { return l.ranges[i].last >= seq })
	return i < len(l.ranges) && l.ranges[i].first <= seq
}

// All yields the numbers in the list in ascending order.
func (l *List) All() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, r := range l.ranges {
			for i := range r.last - r.first + 1 {
				if !yield(r.first + i) {
					return
				}
			}
		}
	}
}

// AppendJSON appends the list as compact canonical JSON.
func (l *List) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for i, r := range l.ranges {
		if i > 0 {
			dst = append(dst, ',')
		}
		if r.first == r.last {
			dst = strconv.AppendUint(dst, r.first, 10)
			continue
		}
		dst = strconv.AppendUint(append(dst, '['), r.first, 10)
		dst = append(strconv.AppendUint(append(dst, ','), r.last, 10), ']')
	}
	return append(dst, ']')
}

// Parse parses a list in the form that AppendJSON writes. It returns an error for an empty list and
// for any other encoding of a list.
func Parse(v pyjson.Value) (*List, error) {
	if v.Kind() != pyjson.Array {
		return nil, errors.New("the list is not an array")
	}
	l := new(List)
	for e := range v.Elements() {
		r, err := parseSeqRange(e)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", len(l.ranges), err)
		}
		if n := len(l.ranges); n > 0 && (r.first <= l.ranges[n-1].last || r.first-1 == l.ranges[n-1].last) {
			return nil, fmt.Errorf("element %d must begin at least 2 numbers after the end of the previous element", n)
		}
		if r.last-r.first >= MaxListLen {
			return nil, fmt.Errorf("the list has more than %d numbers", MaxListLen)
		}
		l.ranges = append(l.ranges, r)
		l.count += int(r.last-r.first) + 1
		l.bytes += r.bytes()
		if l.count > MaxListLen || l.bytes > MaxJSONBytes {
			return nil, fmt.Errorf("the list has more than %d numbers or %d bytes", MaxListLen, MaxJSONBytes)
		}
	}
	if l.count == 0 {
		return nil, errors.New("the list is empty")
	}
	return l, nil
}

func parseSeqRange(v pyjson.Value) (seqRange, error) {
	if v.Kind() != pyjson.Array {
		seq, err := strict.ParseUint64(v)
		return seqRange{seq, seq}, err
	}
	ends := slices.Collect(v.Elements())
	if len(ends) != 2 {
		return seqRange{}, errors.New("a range must consist of exactly two numbers")
	}
	first, err := strict.ParseUint64(ends[0])
	last, lastErr := strict.ParseUint64(ends[1])
	switch {
	case err != nil || lastErr != nil:
		return seqRange{}, errors.Join(err, lastErr)
	case first >= last:
		return seqRange{}, errors.New("a range must end after it begins")
	}
	return seqRange{first, last}, nil
}
