package efs

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// name is what a request names: a resource by its ID, in an account.
type name struct {
	place
	id string
}

// parseName reads an ID or an ARN, whose resource begins with kind ("file-system/", "access-point/"). Nothing of
// another region has a name here.
func parseName(ctx context.Context, kind string, value *string) name {
	n := name{place: placeOf(ctx), id: aws.ToString(value)}
	parts := strings.SplitN(n.id, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" {
		return n
	}
	id, ok := strings.CutPrefix(parts[5], kind)
	if !ok || parts[1] != "aws" || parts[2] != "elasticfilesystem" || parts[3] != n.region {
		return n // as an ID it names nothing
	}
	return name{place: place{account: parts[4], region: parts[3]}, id: id}
}

func fileSystemName(ctx context.Context, value *string) name {
	return parseName(ctx, "file-system/", value)
}

func accessPointName(ctx context.Context, value *string) name {
	return parseName(ctx, "access-point/", value)
}

func (n name) key() string { return store.Key(n.account, n.region, n.id) }

// of returns the record that a name stands for, or a zero one: only authorized callers may learn whether it exists.
func of[T any](ctx context.Context, table store.Table[T], n name) (T, error) {
	row, err := table.Get(ctx, n.key())
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return row.Value, err
}

// onFileSystem returns a file system as the target, whose policy counts; all of the account when the request names
// none.
func (s *Service) onFileSystem(ctx context.Context, action string, id *string) ([]wire.Target, error) {
	if aws.ToString(id) == "" {
		return []wire.Target{anyOf(ctx, action, "file-system")}, nil
	}
	n := fileSystemName(ctx, id)
	f, err := of(ctx, s.fileSystems, n)
	if err != nil {
		return nil, err
	}
	return []wire.Target{fileSystemTarget(ctx, action, n, f)}, nil
}

// anyOf returns all resources of a kind that the caller's account has as a target.
func anyOf(ctx context.Context, action, kind string) wire.Target {
	at := placeOf(ctx)
	return wire.Target{Action: action, Resource: "arn:aws:elasticfilesystem:" + at.region + ":" + at.account + ":" + kind +
		"/*", Conditions: map[string][]string{}}
}

// fileSystemTarget returns a file system, whose record may be the zero one, as a target.
func fileSystemTarget(ctx context.Context, action string, n name, f record.FileSystem) wire.Target {
	t := wire.Target{Action: action, Resource: record.FileSystemARN(n.account, n.region, n.id), Policy: f.Policy,
		PolicyIDs: f.PolicyIDs, Conditions: resourceTags(f.Tags)}
	if n.account != wire.CallerFrom(ctx).Account {
		t.Owner = n.account
	}
	return t
}

// onAccessPoint returns an access point as the target.
func (s *Service) onAccessPoint(ctx context.Context, action string, id *string) ([]wire.Target, error) {
	n := accessPointName(ctx, id)
	a, err := of(ctx, s.accessPoints, n)
	if err != nil {
		return nil, err
	}
	t := wire.Target{Action: action, Resource: record.AccessPointARN(n.account, n.region, n.id),
		Conditions: resourceTags(a.Tags)}
	if n.account != wire.CallerFrom(ctx).Account {
		t.Owner = n.account
	}
	return []wire.Target{t}, nil
}

// onMountTarget returns the file system of a mount target as the target: mount targets are not resources of policies.
func (s *Service) onMountTarget(ctx context.Context, action string, id *string) ([]wire.Target, error) {
	at := placeOf(ctx)
	m, err := of(ctx, s.mountTargets, name{place: at, id: aws.ToString(id)})
	if err != nil {
		return nil, err
	}
	if m.FileSystemID == "" {
		return []wire.Target{anyOf(ctx, action, "file-system")}, nil
	}
	return s.onFileSystem(ctx, action, &m.FileSystemID)
}

// onResource returns the file system or the access point that a request names as the target.
func (s *Service) onResource(ctx context.Context, action string, id *string) ([]wire.Target, error) {
	if isAccessPoint(aws.ToString(id)) {
		return s.onAccessPoint(ctx, action, id)
	}
	return s.onFileSystem(ctx, action, id)
}

// isAccessPoint reports whether the ID or the ARN of a resource is that of an access point.
func isAccessPoint(id string) bool {
	return strings.HasPrefix(id, "fsap-") || strings.Contains(id, ":access-point/")
}

func resourceTags(tags map[string]string) map[string][]string {
	conditions := map[string][]string{}
	for k, v := range tags {
		conditions["aws:ResourceTag/"+k] = []string{v}
	}
	return conditions
}

// addRequestTags adds the condition keys about tags in a request.
func addRequestTags(conditions map[string][]string, tags []types.Tag) {
	for _, t := range tags {
		conditions["aws:RequestTag/"+aws.ToString(t.Key)] = []string{aws.ToString(t.Value)}
		conditions["aws:TagKeys"] = append(conditions["aws:TagKeys"], aws.ToString(t.Key))
	}
}

// withTagging adds the permission to tag what a request creates with tags.
// https://docs.aws.amazon.com/efs/latest/ug/supported-iam-actions-tagging.html
func withTagging(targets []wire.Target, resource string, tags []types.Tag) []wire.Target {
	if len(tags) == 0 {
		return targets
	}
	_, created, _ := strings.Cut(targets[0].Action, ":")
	t := wire.Target{Action: "elasticfilesystem:TagResource", Resource: resource, Owner: targets[0].Owner,
		Conditions: map[string][]string{"elasticfilesystem:CreateAction": {created}}}
	addRequestTags(t.Conditions, tags)
	return append(targets, t)
}
