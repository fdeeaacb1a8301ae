package ecr

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/record"
)

// reading are the actions that EKS gives to everybody on its repositories.
var reading = []string{"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:DescribeImages",
	"ecr:DescribeRepositories", "ecr:GetDownloadUrlForLayer", "ecr:ListImages"}

// readable is the policy of EKS's repositories.
var readable = func() string {
	text, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{
		"Effect": "Allow", "Principal": "*", "Action": reading, "Resource": "*"}}})
	if err != nil {
		panic(err) // strings
	}
	return string(text)
}()

// repositoryTarget returns the target of an action on a repository, whose record may be the zero one.
func (s *Service) repositoryTarget(at registry, caller wire.Caller, action, name string,
	row record.Repository) wire.Target {
	t := wire.Target{Action: action, Resource: at.arn(name), Conditions: map[string][]string{}}
	if at.account != caller.Account {
		t.Owner = at.account
	}
	if image.OfEKS(at.account) {
		t.Policy = readable
	} else if row.Policy != "" {
		t.Policy, t.PolicyIDs = withResources(row.Policy), row.PolicyIDs
	}
	for k, v := range row.Tags {
		t.Conditions["aws:ResourceTag/"+k] = []string{v}
		t.Conditions["ecr:ResourceTag/"+k] = []string{v}
	}
	return t
}

// withResources gives the statements of a repository policy, which have none, a resource: the repository that they are
// attached to.
func withResources(text string) string {
	var document map[string]any
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		return text // it is refused when it is set, and says so when it is read
	}
	statements, ok := document["Statement"].([]any)
	if !ok {
		statements = []any{document["Statement"]}
	}
	for _, statement := range statements {
		if fields, ok := statement.(map[string]any); ok {
			fields["Resource"] = "*"
		}
	}
	document["Statement"] = statements
	changed, err := json.Marshal(document)
	if err != nil {
		panic(err) // it came from JSON
	}
	return string(changed)
}

// onRepository returns a repository as the target, whose policy counts, or a whole registry without one.
func (s *Service) onRepository(ctx context.Context, action string, registryID, name *string) ([]wire.Target, error) {
	if aws.ToString(name) == "" {
		return onRegistry(ctx, action, registryOf(ctx, registryID), "*"), nil
	}
	return s.onRepositories(ctx, action, registryOf(ctx, registryID), *name)
}

// onRegistry returns a registry as the target.
func onRegistry(ctx context.Context, action string, at registry, resource string) []wire.Target {
	t := wire.Target{Action: action, Resource: resource}
	if at.account != wire.CallerFrom(ctx).Account {
		t.Owner = at.account // no policy of a repository speaks for the registry of another account
	}
	return []wire.Target{t}
}

func (s *Service) onRepositories(
	ctx context.Context, action string, at registry, names ...string,
) ([]wire.Target, error) {
	var targets []wire.Target
	for _, name := range names {
		row, err := s.loadRepository(ctx, at, name)
		if err != nil {
			return nil, err
		}
		targets = append(targets, s.repositoryTarget(at, wire.CallerFrom(ctx), action, name, row))
	}
	return targets, nil
}

// loadRepository returns a repository's record, or the zero one: only authorized callers may learn whether it exists.
func (s *Service) loadRepository(ctx context.Context, at registry, name string) (record.Repository, error) {
	there, err := s.repositoryExists(ctx, at, name)
	if err != nil || !there {
		return record.Repository{}, err
	}
	row, err := s.repositories.Get(ctx, at.key(name))
	return row.Value, err
}

// targetsForARN returns the repository of an ARN as the target.
func (s *Service) targetsForARN(
	ctx context.Context, action string, arn *string, conditions map[string][]string,
) ([]wire.Target, error) {
	at, name, ok := parseARN(ctx, aws.ToString(arn))
	if !ok {
		return []wire.Target{{Action: action, Resource: aws.ToString(arn), Conditions: conditions}}, nil
	}
	row, err := s.loadRepository(ctx, at, name)
	if err != nil {
		return nil, err
	}
	t := s.repositoryTarget(at, wire.CallerFrom(ctx), action, name, row)
	for k, v := range conditions {
		t.Conditions[k] = v
	}
	return []wire.Target{t}, nil
}

// parseARN takes the ARN of a repository apart, which must be in the request's region: policies may ask for that.
func parseARN(ctx context.Context, arn string) (at registry, name string, ok bool) {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[1] != "aws" || parts[2] != "ecr" ||
		parts[3] != wire.RegionFrom(ctx) {
		return registry{}, "", false
	}
	name, ok = strings.CutPrefix(parts[5], "repository/")
	return registry{account: parts[4], region: parts[3]}, name, ok
}

func tagConditions(tags []types.Tag) map[string][]string {
	conditions := map[string][]string{}
	var keys []string
	for _, tag := range tags {
		keys = append(keys, aws.ToString(tag.Key))
		conditions["aws:RequestTag/"+aws.ToString(tag.Key)] = []string{aws.ToString(tag.Value)}
	}
	if slices.Sort(keys); len(keys) > 0 {
		conditions["aws:TagKeys"] = keys
	}
	return conditions
}
