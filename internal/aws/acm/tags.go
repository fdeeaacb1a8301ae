package acm

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// tagMap returns the tags of a request by their keys.
func tagMap(tags []types.Tag) map[string]string {
	m := make(map[string]string, len(tags))
	for _, t := range tags {
		m[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return m
}

// addTags returns tags with those of a request, and refuses what breaks a rule for tags.
func addTags(ctx context.Context, tags map[string]string, added []types.Tag) (map[string]string, error) {
	after := maps.Clone(tags)
	if after == nil {
		after = map[string]string{}
	}
	seen := map[string]bool{}
	for _, t := range added {
		key := aws.ToString(t.Key)
		switch {
		case !wire.MaySetTag(ctx, key):
			return nil, reservedTag(key)
		case seen[key]:
			return nil, invalidTag("The tag key %q is there more than once.", key)
		}
		seen[key] = true
		after[key] = aws.ToString(t.Value)
	}
	if n := wire.CountTags(after); n > maxTags {
		return nil, &types.TooManyTagsException{Message: aws.String("A certificate can have 50 tags: remove some.")}
	}
	return after, nil
}

func reservedTag(key string) error {
	return invalidTag("The tag key %q is reserved: keys may not begin with aws:.", key)
}

// addTagsTargets returns what AddTagsToCertificate needs permission for.
func (s *Service) addTagsTargets(ctx context.Context, action string, in *acm.AddTagsToCertificateInput) (
	[]wire.Target, error) {
	t, err := s.target(ctx, action, in.CertificateArn)
	addRequestTags(t, in.Tags)
	return []wire.Target{t}, err
}

// removeTagsTargets returns what RemoveTagsFromCertificate needs permission for.
func (s *Service) removeTagsTargets(ctx context.Context, action string, in *acm.RemoveTagsFromCertificateInput) (
	[]wire.Target, error) {
	t, err := s.target(ctx, action, in.CertificateArn)
	t.Conditions["aws:TagKeys"] = slices.Sorted(maps.Keys(tagMap(in.Tags)))
	return []wire.Target{t}, err
}

// AddTagsToCertificate gives a certificate tags, or other values to those it has.
func (s *Service) AddTagsToCertificate(ctx context.Context, in *acm.AddTagsToCertificateInput) (
	*acm.AddTagsToCertificateOutput, error) {
	err := s.modify(ctx, in.CertificateArn, func(c *record.Certificate) (err error) {
		c.Tags, err = addTags(ctx, c.Tags, in.Tags)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &acm.AddTagsToCertificateOutput{}, nil
}

// RemoveTagsFromCertificate takes tags off a certificate: those of a key and a value, or of a key where the request has
// no value.
func (s *Service) RemoveTagsFromCertificate(ctx context.Context, in *acm.RemoveTagsFromCertificateInput) (
	*acm.RemoveTagsFromCertificateOutput, error) {
	err := s.modify(ctx, in.CertificateArn, func(c *record.Certificate) error {
		tags := maps.Clone(c.Tags)
		for _, t := range in.Tags {
			key := aws.ToString(t.Key)
			if !wire.MaySetTag(ctx, key) {
				return reservedTag(key)
			}
			if value, ok := tags[key]; ok && (t.Value == nil || *t.Value == value) {
				delete(tags, key)
			}
		}
		c.Tags = tags
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &acm.RemoveTagsFromCertificateOutput{}, nil
}

// ListTagsForCertificate lists the tags of a certificate.
func (s *Service) ListTagsForCertificate(ctx context.Context, in *acm.ListTagsForCertificateInput) (
	*acm.ListTagsForCertificateOutput, error) {
	row, err := s.find(ctx, in.CertificateArn)
	if err != nil {
		return nil, err
	}
	out := &acm.ListTagsForCertificateOutput{Tags: []types.Tag{}}
	for _, k := range slices.Sorted(maps.Keys(row.Value.Tags)) {
		out.Tags = append(out.Tags, types.Tag{Key: new(k), Value: new(row.Value.Tags[k])})
	}
	return out, nil
}
