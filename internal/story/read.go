// Package story reads the paths of a branching story from the output folder of a build, and
// describes in Markdown how they differ from the paths of another build.
package story

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Path is a route through the story, with the text along it.
type Path struct {
	Route   []string // names of the passages along the path, in order
	Content string   // text of the path
	file    string   // the file that the path was read from, for error messages
}

// maxFile is the maximum size of a file in bytes. It is generous because the list of paths repeats
// each passage in every path that contains it.
const maxFile = 256 << 20

// These are the names of files in a build. Each file is either in the story's folder or in its
// subfolder dist. Builds now use the first name in each list. Earlier builds used the other names.
var (
	pathLists = []string{"allpaths-intermediate/paths.json", "allpaths-intermediate/paths_enriched.json", "allpaths-intermediate/paths_categorized.json"}
	caches    = []string{"allpaths-validation-status.json", "allpaths-validation-cache.json"}
	texts     = []string{"allpaths-clean", "allpaths-text"}
)

// ReadPaths returns the paths of a story. It reads the list of paths, which includes the text of
// each passage (allpaths-intermediate/paths.json). If there is no such list, it reads the text of
// each path (allpaths-clean/path-ID.txt) and takes its route from the validation cache
// (allpaths-validation-status.json). Each of these files is either in the folder itself or in its
// subfolder dist.
func ReadPaths(folder fs.FS) ([]Path, error) {
	file, text, err := readFirst(folder, pathLists)
	if err != nil {
		return nil, err
	}
	var found []Path
	if file != "" {
		found, err = parsePaths(file, text)
	} else {
		found, err = readTexts(folder)
	}
	if err != nil {
		return nil, err
	}
	return found, checkRoutes(found)
}

// checkRoutes returns an error if two paths have the same route.
func checkRoutes(found []Path) error {
	byRoute := make(map[string]Path)
	for _, p := range found {
		route := FormatRoute(p.Route)
		if other, is := byRoute[route]; is {
			return fmt.Errorf("%s and %s have the same route, %.200q; empty the folder and build the story again", other.file, p.file, route)
		}
		byRoute[route] = p
	}
	return nil
}

// FormatRoute returns a route in readable form. The path_id of a path is computed from this form.
func FormatRoute(route []string) string { return strings.Join(route, " → ") }

// readFirst reads the first of the named files that exists in the folder or in its subfolder dist.
// file is empty if none of them exists.
func readFirst(folder fs.FS, names []string) (file string, text []byte, err error) {
	for _, name := range names {
		for _, file := range [...]string{name, path.Join("dist", name)} {
			text, err := readFile(folder, file)
			if !errors.Is(err, fs.ErrNotExist) {
				return file, text, err
			}
		}
	}
	return "", nil, nil
}

func readFile(folder fs.FS, name string) ([]byte, error) {
	file, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return text, err
}

// parsePaths parses the list of paths. The text of a path consists of the texts of its passages,
// trimmed of white space and separated by empty lines.
func parsePaths(file string, text []byte) ([]Path, error) {
	var list struct {
		Paths []struct {
			ID      string
			Route   []string
			Content map[string]string
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", file, err)
	}
	found := make([]Path, len(list.Paths))
	for i, p := range list.Paths {
		at := fmt.Sprintf("%s: path %d", file, i+1)
		if len(p.Route) == 0 {
			return nil, fmt.Errorf("%s has no route; build the story again", at)
		}
		var passages []string
		for _, name := range p.Route {
			passage, has := p.Content[name]
			if !has {
				return nil, fmt.Errorf("%s has no text for the passage %.200q; build the story again", at, name)
			}
			passages = append(passages, strings.TrimSpace(passage))
		}
		found[i] = Path{Route: p.Route, Content: strings.Join(passages, "\n\n"), file: at}
	}
	return found, nil
}

// readTexts reads the text of each path from its own file, and takes the routes from the validation
// cache. It ignores routes in the cache that have no text, which are left over from earlier builds.
func readTexts(folder fs.FS) ([]Path, error) {
	dir, entries, err := readFolder(folder)
	if err != nil {
		return nil, err
	}
	cache, text, err := readFirst(folder, caches)
	if err != nil {
		return nil, err
	}
	if cache == "" {
		return nil, fmt.Errorf("the folder %s contains texts, but the file %s, which defines the routes of the texts, was not found; name the folder of the story's repository", dir, caches[0])
	}
	routes, err := parseCache(cache, text)
	if err != nil {
		return nil, err
	}
	var found []Path
	for _, entry := range entries {
		name := strings.TrimSuffix(strings.TrimPrefix(entry.Name(), "path-"), ".txt")
		if name == entry.Name() || entry.IsDir() {
			continue
		}
		file := path.Join(dir, entry.Name())
		// Earlier builds put the number of the path before its ID.
		id := name[strings.LastIndexByte(name, '-')+1:]
		route, known := routes[id]
		if !known {
			return nil, fmt.Errorf("%s: %s has no route for the path %q; build the story again", file, cache, id)
		}
		text, err := readFile(folder, file)
		if err != nil {
			return nil, err
		}
		found = append(found, Path{Route: route, Content: strings.TrimSpace(string(text)), file: file})
	}
	return found, nil
}

// readFolder returns the name of the folder that holds the texts of the paths, and the folder's
// entries.
func readFolder(folder fs.FS) (dir string, entries []fs.DirEntry, err error) {
	for _, name := range texts {
		for _, dir := range [...]string{name, path.Join("dist", name)} {
			entries, err := fs.ReadDir(folder, dir)
			if !errors.Is(err, fs.ErrNotExist) {
				return dir, entries, err
			}
		}
	}
	return "", nil, fmt.Errorf("neither %s nor %s exists in the folder or its subfolder dist; build the story first", pathLists[0], texts[0])
}

// parseCache returns the routes in a validation cache, keyed by path ID. It skips members that are
// not objects, because they describe the file itself.
func parseCache(file string, text []byte) (map[string][]string, error) {
	var cache map[string]json.RawMessage
	if err := json.Unmarshal(text, &cache); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", file, err)
	}
	routes := make(map[string][]string)
	for id, value := range cache {
		var entry struct{ Route string }
		if !bytes.HasPrefix(value, []byte("{")) {
			continue
		}
		if err := json.Unmarshal(value, &entry); err != nil {
			return nil, fmt.Errorf("%s: path %q: %w", file, id, err)
		}
		if entry.Route != "" {
			routes[id] = strings.Split(entry.Route, " → ")
		}
	}
	return routes, nil
}
