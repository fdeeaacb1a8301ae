package efs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// policyHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) policyHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutFileSystemPolicy, func(
			ctx context.Context, action string, in *efs.PutFileSystemPolicyInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
		wire.Handle(s.DescribeFileSystemPolicy, func(
			ctx context.Context, action string, in *efs.DescribeFileSystemPolicyInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
		wire.Handle(s.DeleteFileSystemPolicy, func(
			ctx context.Context, action string, in *efs.DeleteFileSystemPolicyInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
	}
}

// PutFileSystemPolicy sets the policy of a file system. One that would keep the caller from setting another is refused,
// unless the request bypasses that check.
// https://docs.aws.amazon.com/efs/latest/ug/API_PutFileSystemPolicy.html
func (s *Service) PutFileSystemPolicy(ctx context.Context, in *efs.PutFileSystemPolicyInput) (
	*efs.PutFileSystemPolicyOutput, error) {
	row, err := s.available(ctx, in.FileSystemId)
	if err != nil {
		return nil, err
	}
	text, ids, err := s.checkPolicy(ctx, row.Value, aws.ToString(in.Policy), in.BypassPolicyLockoutSafetyCheck)
	if err != nil {
		return nil, err
	}
	f, err := s.modifyAvailable(ctx, in.FileSystemId, func(f *record.FileSystem) error {
		f.Policy, f.PolicyIDs = text, ids
		return nil
	})
	return &efs.PutFileSystemPolicyOutput{FileSystemId: new(f.ID), Policy: new(text)}, err
}

// checkPolicy refuses a policy that is not one of the file system, or names who does not exist. It returns the policy
// with all its resources, and the unique IDs of the users and roles that it names.
func (s *Service) checkPolicy(ctx context.Context, f record.FileSystem, given string, bypass bool) (
	text string, ids map[string]string, err error) {
	text, err = completePolicy(given, f.ARN())
	if err != nil {
		return "", nil, err
	}
	d, err := policy.Parse(policy.Resource, text)
	if err != nil {
		return "", nil, invalidPolicy("%v", err)
	}
	ids, nobody, err := s.named.IDs(ctx, d)
	if err != nil {
		return "", nil, err
	}
	if nobody != "" {
		return "", nil, invalidPolicy("Principal not found: %s", nobody)
	}
	if bypass {
		return text, ids, nil
	}
	f.Policy, f.PolicyIDs = text, ids
	t := fileSystemTarget(ctx, "elasticfilesystem:PutFileSystemPolicy", name{place{f.Account, f.Region}, f.ID}, f)
	var denied *wire.Denied
	if err := wire.Authorize(ctx, t); errors.As(err, &denied) {
		return "", nil, invalidPolicy("The new policy would not let you set another one; set "+
			"BypassPolicyLockoutSafetyCheck if you mean that: %v", denied)
	} else if err != nil {
		return "", nil, err
	}
	return text, ids, nil
}

// completePolicy gives the statements of a policy that name no resource the file system, which they are attached to. It
// refuses statements about other resources and other services. What is no policy it leaves to the parser.
func completePolicy(given, arn string) (string, error) {
	var document map[string]any
	if err := json.Unmarshal([]byte(given), &document); err != nil {
		return "", invalidPolicy("Syntax errors in policy: %v", err)
	}
	statements, ok := document["Statement"].([]any)
	if !ok {
		statements = []any{document["Statement"]}
	}
	starts := statementStarts(given)
	if len(starts) != len(statements) {
		return given, nil
	}
	var text strings.Builder
	written := int64(0) // of what was given
	for i, statement := range statements {
		fields, ok := statement.(map[string]any)
		if !ok {
			return given, nil
		}
		if err := checkStatement(fields, arn); err != nil {
			return "", err
		}
		if fields["Resource"] != nil {
			continue
		}
		text.WriteString(given[written:starts[i]])
		written = starts[i]
		fmt.Fprintf(&text, "%q:%q", "Resource", arn)
		if len(fields) > 0 {
			text.WriteByte(',')
		}
	}
	text.WriteString(given[written:])
	return text.String(), nil
}

// checkStatement refuses a statement about other resources than the file system, or about other services.
func checkStatement(fields map[string]any, arn string) error {
	if fields["NotResource"] != nil {
		return invalidPolicy("A file system policy is about its file system: leave NotResource out.")
	}
	for _, r := range texts(fields["Resource"]) {
		if !policy.MatchesARN(r, arn) {
			return invalidPolicy("A file system policy is about its file system %s, and not about %s.", arn, r)
		}
	}
	for _, a := range append(texts(fields["Action"]), texts(fields["NotAction"])...) {
		if prefix, _, ok := strings.Cut(a, ":"); ok && !strings.EqualFold(prefix, "elasticfilesystem") {
			return invalidPolicy("A file system policy has actions of elasticfilesystem alone, and not %s.", a)
		}
	}
	return nil
}

// statementStarts returns where the statements of a policy begin, behind their brackets; nothing of what is no policy.
func statementStarts(document string) (starts []int64) {
	decoder := json.NewDecoder(strings.NewReader(document))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return nil
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil
		}
		if name != "Statement" {
			if err := decoder.Decode(new(json.RawMessage)); err != nil {
				return nil
			}
			continue
		}
		opening, err := decoder.Token()
		if err == nil && opening == json.Delim('{') {
			return []int64{decoder.InputOffset()}
		}
		if err != nil || opening != json.Delim('[') {
			return nil
		}
		for decoder.More() {
			if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
				return nil
			}
			starts = append(starts, decoder.InputOffset())
			for decoder.More() {
				if _, err := decoder.Token(); err != nil {
					return nil
				}
				if err := decoder.Decode(new(json.RawMessage)); err != nil {
					return nil
				}
			}
			if _, err := decoder.Token(); err != nil {
				return nil
			}
		}
		return starts
	}
	return nil
}

// texts returns the texts of a member that is a text or a list of them.
func texts(value any) []string {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	var all []string
	for _, v := range list {
		if t, ok := v.(string); ok {
			all = append(all, t)
		}
	}
	return all
}

// DescribeFileSystemPolicy returns the policy of a file system.
func (s *Service) DescribeFileSystemPolicy(ctx context.Context, in *efs.DescribeFileSystemPolicyInput) (
	*efs.DescribeFileSystemPolicyOutput, error) {
	row, err := s.fileSystem(ctx, in.FileSystemId)
	if err != nil {
		return nil, err
	}
	if row.Value.Policy == "" {
		return nil, policyNotFound(row.Value.ID)
	}
	return &efs.DescribeFileSystemPolicyOutput{FileSystemId: new(row.Value.ID), Policy: new(row.Value.Policy)}, nil
}

// DeleteFileSystemPolicy removes the policy of a file system: everybody who reaches it may use it then.
func (s *Service) DeleteFileSystemPolicy(ctx context.Context, in *efs.DeleteFileSystemPolicyInput) (
	*efs.DeleteFileSystemPolicyOutput, error) {
	_, err := s.modifyAvailable(ctx, in.FileSystemId, func(f *record.FileSystem) error {
		f.Policy, f.PolicyIDs = "", nil
		return nil
	})
	return &efs.DeleteFileSystemPolicyOutput{}, err
}
