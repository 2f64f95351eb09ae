package pebbletest

import (
	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
)

// prefixBundle is the number of key prefixes per bundle in Pebble's default schema.
const prefixBundle = 16

// readerOptions returns options for reading tables that were written with Pebble's own comparer or
// with a comparer named in orders. All comparers in the options use Pebble's order, because the
// order does not matter to a reader that reads all keys.
func readerOptions(orders []string) sstable.ReaderOptions {
	var schemas []*colblk.KeySchema
	comparers := make(sstable.Comparers)
	for _, name := range append([]string{engine.DefaultComparer.Name}, orders...) {
		c := *engine.DefaultComparer
		c.Name = name
		comparers[name] = &c
		schema := colblk.DefaultKeySchema(&c, prefixBundle)
		schemas = append(schemas, &schema)
	}
	return sstable.ReaderOptions{Comparers: comparers, KeySchemas: sstable.MakeKeySchemas(schemas...)}
}
