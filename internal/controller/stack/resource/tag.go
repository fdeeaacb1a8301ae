package resource

import (
	"maps"
	"slices"
	"strings"
)

// OwnTags returns the tags of a property: a list of {Key, Value}, or a map of strings.
func OwnTags(property any) map[string]string {
	tags := map[string]string{}
	switch value := property.(type) {
	case map[string]any:
		for key, text := range value {
			tags[key] = Text(text)
		}
	case []any:
		for _, entry := range value {
			if tag, ok := entry.(map[string]any); ok {
				tags[Text(tag["Key"])] = Text(tag["Value"])
			}
		}
	}
	return tags
}

// MergeTags returns the tags that a resource has: its own over those of the stack, which are never empty, as
// aws:cloudformation:* are among them.
func MergeTags(stack, own map[string]string) map[string]string {
	tags := maps.Clone(stack)
	if tags == nil {
		tags = map[string]string{}
	}
	for key, value := range own {
		if _, system := stack[key]; system && strings.HasPrefix(key, "aws:") {
			continue
		}
		tags[key] = value
	}
	return tags
}

// Wanted returns the tags that the resource of the request has to have. property names the property of its own tags;
// for resources without one it is empty.
func (r *Request) Wanted(property string) map[string]string {
	return MergeTags(r.stackTags(property, r.Tags), OwnTags(r.Properties[property]))
}

// stackTags returns those of the tags of a stack that a resource has. One whose type has no tags gets those alone by
// which the stack finds it, for which nobody needs a permission.
func (r *Request) stackTags(property string, all map[string]string) map[string]string {
	if property != "" {
		return all
	}
	own := maps.Clone(all)
	maps.DeleteFunc(own, func(key, _ string) bool { return !strings.HasPrefix(key, "aws:") })
	return own
}

// TagChanges returns which tags an update sets, and the keys of those that it removes, sorted. Tags that others than
// the stack have put on the resource stay.
func (r *Request) TagChanges(property string) (set map[string]string, removed []string) {
	wanted, had := r.Wanted(property), MergeTags(r.stackTags(property, r.PreviousTags), OwnTags(r.Previous[property]))
	set = map[string]string{}
	for key, value := range wanted {
		if old, ok := had[key]; !ok || old != value {
			set[key] = value
		}
	}
	for key := range had {
		if _, ok := wanted[key]; !ok {
			removed = append(removed, key)
		}
	}
	slices.Sort(removed)
	return set, removed
}

// TagList returns tags as the SDK of a service has them, sorted by key.
func TagList[T any](tags map[string]string, tag func(key, value string) T) []T {
	list := make([]T, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, tag(key, tags[key]))
	}
	return list
}

// The tags by which a stack finds its resources.
const (
	TagStackName = "aws:cloudformation:stack-name"
	TagStackID   = "aws:cloudformation:stack-id"
	TagLogicalID = "aws:cloudformation:logical-id"
)

// Owns reports whether tags are those of the resource of the request, which this stack has made.
func (r *Request) Owns(tags map[string]string) bool {
	return tags[TagStackID] == r.StackID && tags[TagLogicalID] == r.LogicalID
}

// LiveTags returns the tags of a live resource that its property would have: without those of AWS, and without those
// that it has of its stack. property names the property.
func (r *Request) LiveTags(property string, live map[string]string) map[string]string {
	own, tags := OwnTags(r.Properties[property]), maps.Clone(live)
	maps.DeleteFunc(tags, func(key, value string) bool {
		_, named := own[key]
		of, inherited := r.Tags[key]
		return strings.HasPrefix(key, "aws:") || inherited && of == value && !named
	})
	return tags
}

// TagObjects returns tags as a list property has them, sorted by key; nil for none.
func TagObjects(tags map[string]string) any {
	if len(tags) == 0 {
		return nil
	}
	return TagList(tags, func(key, value string) any { return map[string]any{"Key": key, "Value": value} })
}
