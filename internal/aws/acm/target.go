package acm

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// reference is what an ARN in a request names.
type reference struct {
	place
	id string
}

// parseARN reads the ARN of a certificate.
func parseARN(arn string) (reference, error) {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[1] != "aws" || parts[2] != "acm" {
		return reference{}, invalidARN(arn)
	}
	id, ok := strings.CutPrefix(parts[5], "certificate/")
	if !ok || parts[3] == "" || len(parts[4]) != len("111122223333") || uuid.Validate(id) != nil {
		return reference{}, invalidARN(arn)
	}
	return reference{place: place{account: parts[4], region: parts[3]}, id: id}, nil
}

// find returns the row of the caller's certificate that an ARN names.
func (s *Service) find(ctx context.Context, arn *string) (store.Row[record.Certificate], error) {
	r, err := parseARN(aws.ToString(arn))
	if err != nil {
		return store.Row[record.Certificate]{}, err
	}
	if r.place != placeOf(ctx) { // of another region; another account's is nobody's to ask for
		return store.Row[record.Certificate]{}, notFound(*arn)
	}
	row, err := s.certificates.Get(ctx, record.CertificateKey(r.account, r.region, r.id))
	if errors.Is(err, store.ErrNotFound) {
		return row, notFound(*arn)
	}
	return row, err
}

// modify changes the caller's certificate that an ARN names.
func (s *Service) modify(ctx context.Context, arn *string, change func(*record.Certificate) error) error {
	row, err := s.find(ctx, arn)
	if err != nil {
		return err
	}
	_, err = s.certificates.Modify(ctx, row.Key, change)
	if errors.Is(err, store.ErrNotFound) {
		return notFound(*arn)
	}
	return err
}

// onCertificate returns the certificate whose ARN a request has as the target, whether or not it exists.
func onCertificate[In any](s *Service, arn func(*In) *string) wire.Targets[In] {
	return func(ctx context.Context, action string, in *In) ([]wire.Target, error) {
		t, err := s.target(ctx, action, arn(in))
		return []wire.Target{t}, err
	}
}

// target returns the certificate of an ARN as a target. Certificates of other accounts have no policy that would let
// anybody.
func (s *Service) target(ctx context.Context, action string, arn *string) (wire.Target, error) {
	t := wire.Target{Action: action, Resource: aws.ToString(arn), Conditions: map[string][]string{}}
	r, err := parseARN(t.Resource)
	if err != nil {
		return t, nil //nolint:nilerr // the operation returns it
	}
	t.Owner = r.account
	if r.place != placeOf(ctx) {
		return t, nil
	}
	row, err := s.certificates.Get(ctx, record.CertificateKey(r.account, r.region, r.id))
	if errors.Is(err, store.ErrNotFound) {
		return t, nil
	}
	for k, v := range row.Value.Tags {
		t.Conditions["aws:ResourceTag/"+k] = []string{v}
	}
	return t, err
}

// creationTargets returns the targets of an operation that creates a certificate with tags, which take permission of
// their own.
func creationTargets(ctx context.Context, action string, conditions map[string][]string,
	tags []types.Tag) []wire.Target {
	at := placeOf(ctx)
	t := wire.Target{Action: action, Resource: record.CertificateARN(at.account, at.region, "*"), Conditions: conditions}
	addRequestTags(t, tags)
	targets := []wire.Target{t}
	if len(tags) > 0 {
		tagging := wire.Target{Action: "acm:AddTagsToCertificate", Resource: t.Resource,
			Conditions: map[string][]string{}}
		addRequestTags(tagging, tags)
		targets = append(targets, tagging)
	}
	return targets
}

// addRequestTags adds the condition keys of tags in a request.
func addRequestTags(t wire.Target, tags []types.Tag) {
	m := tagMap(tags)
	for k, v := range m {
		t.Conditions["aws:RequestTag/"+k] = []string{v}
	}
	if len(m) > 0 {
		t.Conditions["aws:TagKeys"] = slices.Sorted(maps.Keys(m))
	}
}
