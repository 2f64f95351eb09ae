package main

import "strings"

// holder is who has the lock of a database.
type holder struct {
	known bool // it could be looked at
	held  bool
	pid   int // 0: in another process namespace
}

// findMount is the kind of file system that a path, absolute and without symbolic
// links, is on, and the options of its mount and its file system, by the text of Linux's
// mountinfo (proc(5)): that of the deepest mount point above it, the last of several.
func findMount(mounts, path string) (kind, options string) {
	deepest := -1
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		mount, system := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 6 || len(system) < 1 {
			continue
		}
		point := mountEscapes.Replace(mount[4])
		if len(point) >= deepest && within(point, path) {
			deepest, kind, options = len(point), system[0], mount[5]
			if len(system) > 2 {
				options += "," + system[2]
			}
		}
	}
	return kind, options
}

// mountEscapes are the characters that mountinfo writes otherwise.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// within reports whether a path is a folder or in it.
func within(folder, path string) bool {
	return folder == "/" || path == folder || strings.HasPrefix(path, folder+"/")
}
