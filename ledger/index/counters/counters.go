// Package counters keeps the metrics that are derived from the log (spec: Metrics derived from
// the log).
package counters

import (
	"slices"

	"colophon/ledger/index/rowstore"
)

// Counters holds the counters of one ledger during a fold. Only the follower's goroutine uses it.
type Counters struct {
	Values
	places map[Series]int
	own    []counter // own[i] is the counter for series[i]
	// changed lists the positions of the counters that the batch has changed.
	changed []int
	pending pending // events that are not yet counted
	key     []byte  // scratch
}

// counter holds the stored name of a counter and whether the current batch has changed it.
type counter struct {
	name    []byte // as encoded by appendName
	changed bool
}

// Values holds the values of all counters at one tree size. The counters are sorted by their
// first use. The Values that Snapshot returns never change.
type Values struct {
	series []Series
	values []uint64
}

// New returns counters that start with the values in initialCounts. It copies the map.
func New(initialCounts Counts) Counters {
	c := Counters{places: make(map[Series]int, len(initialCounts))}
	for s, n := range initialCounts {
		c.values[c.addSeries(s)] = n
	}
	return c
}

// addSeries adds a counter with the value 0 and returns its position.
func (c *Counters) addSeries(s Series) (at int) {
	at = len(c.series)
	c.places[s] = at
	c.series, c.values = append(c.series, s), append(c.values, 0)
	c.own = append(c.own, counter{name: s.appendName(nil)})
	return at
}

// place returns the position of a counter. If the counter is new, place adds it and makes sure that
// it is stored even if its value stays 0.
func (c *Counters) place(s Series) int {
	at, known := c.places[s]
	if !known {
		at = c.addSeries(s)
		c.setAt(at, 0)
	}
	return at
}

// setAt sets the counter at position at to n.
func (c *Counters) setAt(at int, n uint64) {
	c.values[at] = n
	if !c.own[at].changed {
		c.own[at].changed = true
		c.changed = append(c.changed, at)
	}
}

// Snapshot returns the current values. Later changes to c do not affect them.
func (c *Counters) Snapshot() Values {
	return Values{slices.Clip(c.series), slices.Clone(c.values)}
}

// Counts returns the values, keyed by series.
func (r *Values) Counts() Counts {
	all := make(Counts, len(r.series))
	for i, s := range r.series {
		all[s] = r.values[i]
	}
	return all
}

// Add adds n to the counter for a series.
func (c *Counters) Add(s Series, n uint64) {
	at := c.place(s)
	c.setAt(at, c.values[at]+n)
}

// Set sets the counter for a series to n.
func (c *Counters) Set(s Series, n uint64) { c.setAt(c.place(s), n) }

// Write calls FlushPending and then adds the changed counters to the batch.
func (c *Counters) Write(rows *rowstore.Writer) {
	c.FlushPending()
	for _, at := range c.changed {
		c.own[at].changed = false
		c.key = append(rows.Keyspace.AppendPrefix(c.key[:0], counterDimension), c.own[at].name...)
		var value [rowstore.SeqSize]byte
		rows.Set(c.key, rowstore.AppendSeq(value[:0], c.values[at]))
	}
	c.changed = c.changed[:0]
}
