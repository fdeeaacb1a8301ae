package resource

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

const (
	// MaxTags is the maximum number of tags of a resource.
	MaxTags         = 50
	longestTagKey   = 128 // characters
	longestTagValue = 256
)

// TagFault returns what is wrong with tags as a user gives them; "" when nothing is.
// https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html
func TagFault(ctx context.Context, tags map[string]string) string {
	if n := wire.CountTags(tags); n > MaxTags {
		return fmt.Sprintf("The number of tags exceeds the limit of %d: %d were specified", MaxTags, n)
	}
	for k, v := range tags {
		if fault := TagKeyFault(ctx, k); fault != "" {
			return fault
		}
		if n := utf8.RuneCountInString(v); n > longestTagValue {
			return fmt.Sprintf(
				"The value of tag %s can't be longer than %d characters, but has %d", k, longestTagValue, n,
			)
		}
	}
	return ""
}

// TagKeyFault returns what is wrong with the key of a tag; "" when nothing is.
func TagKeyFault(ctx context.Context, k string) string {
	switch n := utf8.RuneCountInString(k); {
	case n == 0:
		return "A tag key can't be empty"
	case n > longestTagKey:
		return fmt.Sprintf("Tag key %s can't be longer than %d characters, but has %d", k, longestTagKey, n)
	case !wire.MaySetTag(ctx, k):
		return fmt.Sprintf("Tag key %s is invalid: the prefix aws: is reserved for system use", k)
	}
	return ""
}
