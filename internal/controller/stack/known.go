package stack

import (
	"context"
	"fmt"
	"slices"

	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/record"
)

// known is what the functions of a template may know: the resources that are done.
type known struct {
	*pass
	ctx     context.Context
	missing string
	// attributes are those of the resources that were asked for last, by logical ID: a template may refer to one
	// thousands of times, and each is decoded, or read, once. Nobody changes them. size is that of their text.
	attributes map[string]map[string]any
	size       int
}

// Ref is part of template.State.
func (k *known) Ref(id string) (string, bool) {
	live := k.row(id).Value.Live
	if live == nil {
		k.missing = id
		return "", false
	}
	return live.ID(), true
}

// Attribute is part of template.State.
func (k *known) Attribute(id, name string) (any, bool, error) {
	live := k.row(id).Value.Live
	if live == nil {
		k.missing = id + "." + name
		return nil, false, nil
	}
	kind := k.c.options.Types[live.Type]
	source, read := id, k.storedAttributes
	if slices.Contains(kind.Volatile, name) {
		source, read = id+" now", k.currentAttributes // logical IDs have no spaces
	}
	attributes, ok := k.attributes[source]
	if !ok {
		if err := k.ctx.Err(); err != nil {
			return nil, false, err
		}
		var err error
		if attributes, err = read(id, *live); err != nil {
			return nil, false, fmt.Errorf("read attribute %s of resource %s: %w", name, id, err)
		}
		if k.size += len(live.Attributes); k.attributes == nil || k.size > maxRemembered {
			k.attributes, k.size = map[string]map[string]any{}, len(live.Attributes)
		}
		k.attributes[source] = attributes
	}
	value, ok := attributes[name]
	if !ok {
		k.missing = id + "." + name
	}
	return value, ok, nil
}

// maxRemembered bounds the text of the attributes that an evaluation remembers, in bytes.
const maxRemembered = 1 << 20

func (k *known) storedAttributes(_ string, live record.StackPhysical) (attributes map[string]any, err error) {
	err = revision.Decode(live.Attributes, &attributes)
	return attributes, err
}

// currentAttributes asks the service that has the resource.
func (k *known) currentAttributes(id string, live record.StackPhysical) (map[string]any, error) {
	in := k.newRequest(id, live)
	if err := revision.Decode(live.Properties, &in.Properties); err != nil {
		return nil, err
	}
	_, attributes, err := k.c.options.Types[live.Type].Read(withLookupLimit(k.ctx), in)
	return attributes, err
}
