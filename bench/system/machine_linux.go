package system

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes the hardware and software environment in which the contestants are measured.
type Machine struct {
	Processor  string            `json:"processor"`
	Cores      int               `json:"cores"`
	Memory     int64             `json:"memory_bytes"`
	Kernel     string            `json:"kernel"`
	Go         string            `json:"go"`
	Filesystem string            `json:"filesystem"`
	Modules    map[string]string `json:"modules"` // versions, keyed by module path
}

// ThisMachine describes this machine. folder is where the contestants write. modules lists the
// modules whose versions are included.
func ThisMachine(folder string, modules ...string) (Machine, error) {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Filesystem: FilesystemType(folder), Modules: make(map[string]string)}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, fmt.Errorf("reading the kernel's version: %w", err)
	}
	m.Kernel = unix.ByteSliceToString(name.Release[:])
	memory, err := counters("/proc/meminfo")
	if err != nil {
		return m, fmt.Errorf("reading the size of memory: %w", err)
	}
	m.Memory = memory["MemTotal"] << 10
	processors, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, fmt.Errorf("reading the model of the processor: %w", err)
	}
	for line := range strings.Lines(string(processors)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			m.Processor = strings.TrimSpace(value)
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			for _, wanted := range modules {
				if module.Path == wanted {
					m.Modules[wanted] = module.Version
				}
			}
		}
	}
	return m, nil
}

// FilesystemType returns the type of the file system that contains a folder, or "" if it is not known.
func FilesystemType(folder string) string {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	longest, kind := -1, ""
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		const point = 4
		if len(fields) <= point {
			continue
		}
		at := strings.TrimSuffix(fields[point], "/")
		if strings.HasPrefix(folder+"/", at+"/") && len(at) > longest {
			longest = len(at)
			kind, _, _ = strings.Cut(after, " ")
		}
	}
	return kind
}
