// Package indextest tests the index of a ledger. It folds whole logs, and compares the answers
// with models that walk over all events.
package indextest
