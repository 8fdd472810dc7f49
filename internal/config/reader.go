package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// reader walks the YAML nodes of one file and notes everything that is wrong with them. The
// nodes are walked, not decoded into structs, so that each value is met with its position and
// each complaint can use the file's own words.
type reader struct {
	file  string
	dir   string // relative paths are resolved against it
	home  string // replaces ~; empty when unknown
	errs  []Error
	files []fileUse
}

// readValue reads one value; path is its full key, such as "workers.batch".
type readValue func(n *yaml.Node, path string)

// field is a key that a mapping may have. Fields are read in the order of their list, whatever
// the order in the file, so that a later one can build on an earlier one.
type field struct {
	key  string
	read readValue
}

func (r *reader) at(n *yaml.Node) Position {
	return Position{File: r.file, Line: n.Line, Column: n.Column}
}

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, Error{r.at(n), fmt.Sprintf(format, args...)})
}

// document gives the top-level node of the file's only document, nil when there is none.
func (r *reader) document(data []byte) *yaml.Node {
	var documents []yaml.Node
	if err := yaml.Load(data, &documents, yaml.WithAllDocuments()); err != nil {
		r.errs = append(r.errs, r.syntaxError(err))
		return nil
	}
	if len(documents) == 0 || len(documents[0].Content) == 0 || isNull(documents[0].Content[0]) {
		r.errs = append(r.errs, Error{Position{File: r.file}, "is empty, there is no cluster in it"})
		return nil
	}
	if len(documents) > 1 {
		r.fail(&documents[1], "a second document starts here: a cluster file holds one")
	}
	return documents[0].Content[0]
}

func (r *reader) syntaxError(err error) Error {
	at := Position{File: r.file}
	load, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return Error{at, "is not YAML: " + err.Error()}
	}
	at.Line, at.Column = load.Mark.Line, load.Mark.Column
	message := "is not YAML: " + load.Message
	if load.ContextMsg != "" {
		message += " (" + load.ContextMsg + ")"
	}
	return Error{at, message}
}

// object reads a mapping and reports which of its keys were given, nil when it is no mapping. An
// empty value (`ssh:` with nothing after it) is a mapping without keys.
func (r *reader) object(n *yaml.Node, path string, fields []field) map[string]bool {
	if n = resolve(n); isNull(n) {
		return map[string]bool{}
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s must be keys with values, got %s", orFile(path), describe(n))
		return nil
	}
	values := r.entries(n, path, fields)
	given := map[string]bool{}
	for _, f := range fields {
		if value := values[f.key]; value != nil {
			given[f.key] = true
			f.read(value, join(path, f.key))
		}
	}
	return given
}

// entries gives the values of a mapping by key, and complains about keys that are unknown or
// given twice.
func (r *reader) entries(n *yaml.Node, path string, fields []field) map[string]*yaml.Node {
	keys, values := map[string]*yaml.Node{}, map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if first := keys[key.Value]; first != nil {
			r.fail(key, "%s is given twice, first at %s", join(path, key.Value), r.at(first))
			continue
		}
		keys[key.Value], values[key.Value] = key, value
		if !slices.ContainsFunc(fields, func(f field) bool { return f.key == key.Value }) {
			r.unknown(key, path, fields)
		}
	}
	return values
}

func (r *reader) unknown(key *yaml.Node, path string, fields []field) {
	if key.Value == "<<" {
		r.fail(key, "%s: merging with << is not supported, write the keys out", orFile(path))
		return
	}
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.key
	}
	name := join(path, key.Value)
	if near := nearest(key.Value, known); near != "" {
		r.fail(key, "%s is not a known key, did you mean %s?", name, near)
		return
	}
	r.fail(key, "%s is not a known key; known here: %s", name, strings.Join(known, ", "))
}

// section reads a nested mapping.
func (r *reader) section(fields ...field) readValue {
	return func(n *yaml.Node, path string) { r.object(n, path, fields) }
}

// list reads a sequence, each item with the path "hosts[0]", "hosts[1]" and so on.
func (r *reader) list(item readValue) readValue {
	return func(n *yaml.Node, path string) {
		if n = resolve(n); isNull(n) {
			return
		}
		if n.Kind != yaml.SequenceNode {
			r.fail(n, "%s must be a list, got %s", path, describe(n))
			return
		}
		for i, child := range n.Content {
			item(child, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

// resolve follows an alias (`*name`) to what it stands for. The depth of a cluster file is fixed,
// so an alias that contains itself ends as a value of the wrong type.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.ShortTag() == "!!null" }

// describe says what a value is, in words.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!str":
		return fmt.Sprintf("the text %q", n.Value)
	case "!!int", "!!float":
		return "the number " + n.Value
	}
	return n.Value
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func orFile(path string) string {
	if path == "" {
		return "the cluster file"
	}
	return path
}
