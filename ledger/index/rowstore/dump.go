package rowstore

import (
	"errors"
	"fmt"
	"slices"
)

// Dump returns one line for each stored key. Lines contain the names of keyspaces instead of
// their numbers, so that stores with the same rows have the same lines. It is for tests. The
// store must be acquired.
func (s *Store) Dump() (lines []string, err error) {
	it, err := s.NewIterator(nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	names := make(map[Keyspace]string)
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.Value()
		if err != nil {
			return nil, err
		}
		key := it.Key()
		space := Keyspace(key)
		if space == (Keyspace{}) && Dimension(key[len(space)]) == numberDimension {
			name := string(key[len(space)+1:])
			names[Keyspace(value)] = name
			lines = append(lines, name)
			continue
		}
		name, known := names[space]
		if !known {
			return nil, fmt.Errorf("key %x does not belong to a named keyspace", key)
		}
		lines = append(lines, fmt.Sprintf("%s %x = %x", name, key[len(space):], value))
	}
	slices.Sort(lines)
	return lines, it.Err()
}
