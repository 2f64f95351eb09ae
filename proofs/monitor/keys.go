package monitor

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"colophon/proofs"
	"colophon/proofs/monitor/fetch"
)

// followKeys finds the successors of the keys in Options.Keys by following handovers. The state
// already contains the keys from the events that earlier walks have read. Keys that the server
// lists are used only if handovers prove them. The tree size up to which a key is valid comes from
// the events that the walk reads, not from the server. followKeys does not add predecessors of the
// keys in Options.Keys, because a retired key may have been stolen.
func (a *Auditor) followKeys(ctx context.Context) error {
	answer, err := a.client.Get(ctx, "/log/key", fetch.MaxNoteBytes)
	if err != nil && !errors.Is(err, fetch.ErrTooLong) {
		return err
	}
	var served *proofs.KeyHistory // nil if the server returned no valid list of keys
	if err == nil && answer.Status == http.StatusOK {
		if served, err = proofs.ParseKeyHistory(answer.Body); err != nil {
			served = nil
		}
	}
	var walked *proofs.KeyHistory
	if a.state != nil {
		walked = a.state.history()
	}
	a.takeKeys(walked, served)
	return nil
}

// takeKeys finds the successors of the keys in Options.Keys. It searches the key history of the
// walked log and the key history that the server lists. Either history can be nil. A key that the
// walked log has replaced may have been stolen. From the server's list, takeKeys therefore takes only
// successors of the walked log's newest key, and of keys in Options.Keys that the walked log lacks.
func (a *Auditor) takeKeys(walked, served *proofs.KeyHistory) {
	a.keys, a.known, a.histories = nil, nil, nil
	if walked != nil {
		a.keys = addKeys(a.keys, walked.VerifiersFrom(a.options.Keys...)...)
	}
	a.keys = addKeys(a.keys, a.options.Keys...)
	first := a.keys
	if walked != nil && slices.ContainsFunc(a.options.Keys, walked.Contains) {
		first = append(slices.DeleteFunc(slices.Clone(a.options.Keys), walked.Contains), walked.CurrentKey())
	}
	if served != nil && !slices.ContainsFunc(first, served.Contains) {
		served = nil
	}
	if served != nil {
		for _, key := range served.VerifiersFrom(first...) {
			a.keys = addKeys(a.keys, key.WithoutBounds())
		}
	}
	a.known = addKeys(a.known, a.keys...)
	if walked != nil && slices.ContainsFunc(a.keys, walked.Contains) {
		a.histories = append(a.histories, walked)
		a.known = addKeys(a.known, walked.Verifiers()...)
	}
	if served != nil {
		a.histories = append(a.histories, served)
		for _, key := range served.Verifiers() {
			a.known = addKeys(a.known, key.WithoutBounds())
		}
	}
	if a.state != nil {
		a.state.keys = addKeys(a.state.keys, a.keys...)
	}
}

// bounded returns the keys in Options.Keys. Keys that the walked log has retired are valid only for
// checkpoints up to the size at which they were retired.
func (a *Auditor) bounded() []*proofs.Verifier {
	var list []*proofs.Verifier
	if walked := a.state.history(); walked != nil {
		for _, key := range walked.Verifiers() {
			if slices.ContainsFunc(a.options.Keys, func(v *proofs.Verifier) bool { return v.String() == key.String() }) {
				list = append(list, key)
			}
		}
	}
	return addKeys(list, a.options.Keys...)
}

// newest returns the keys in Options.Keys, with each key replaced by its newest known successor.
func (a *Auditor) newest() []*proofs.Verifier {
	list := slices.Clone(a.options.Keys)
	for _, history := range a.histories {
		if slices.ContainsFunc(list, history.Contains) {
			list = addKeys(slices.DeleteFunc(list, history.Contains), history.CurrentKey())
		}
	}
	return list
}

// addKeys appends to list those keys that it does not yet contain.
func addKeys(list []*proofs.Verifier, keys ...*proofs.Verifier) []*proofs.Verifier {
	for _, key := range keys {
		if !slices.ContainsFunc(list, func(v *proofs.Verifier) bool { return v.String() == key.String() }) {
			list = append(list, key)
		}
	}
	return list
}
