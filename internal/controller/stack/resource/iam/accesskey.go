package iam

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// accessKeys is the handler of AWS::IAM::AccessKey.
//
// Only the answer to CreateAccessKey has the secret. Create therefore notes first which keys the user has. When an
// answer was lost, a key that came since and has never been used is deleted, and another one is made.
type accessKeys struct{}

// before is what Progress has of what was there before: the keys of the user, divided by commas, or the members of the
// group, divided by slashes.
const before = "before"

func listKeys(ctx context.Context, c *iam.Client, user string) ([]types.AccessKeyMetadata, error) {
	var all []types.AccessKeyMetadata
	pages := iam.NewListAccessKeysPaginator(c, &iam.ListAccessKeysInput{UserName: &user})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, page.AccessKeyMetadata...)
	}
	return all, nil
}

// Create is part of [resource.Handler].
func (accessKeys) Create(ctx context.Context, r *resource.Request) (resource.Result, error) {
	c, user := newClient(r.Config), r.Text("UserName")
	had, noted := r.Progress[before]
	if !noted {
		keys, err := listKeys(ctx, c, user)
		if err != nil {
			return resource.Result{}, err
		}
		ids := make([]string, len(keys))
		for i, k := range keys {
			ids[i] = aws.ToString(k.AccessKeyId)
		}
		return resource.Result{
			Pending: time.Millisecond, Progress: map[string]string{before: strings.Join(ids, ",")},
		}, nil
	}
	if err := deleteLost(ctx, c, user, strings.Split(had, ",")); err != nil {
		return resource.Result{}, err
	}
	out, err := c.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: &user})
	if err != nil {
		return resource.Result{}, err
	}
	id := aws.ToString(out.AccessKey.AccessKeyId)
	result := resource.Result{PhysicalID: id, Attributes: map[string]any{
		"Id": id, "SecretAccessKey": aws.ToString(out.AccessKey.SecretAccessKey),
	}}
	if status := r.Text("Status"); status != "" && status != string(out.AccessKey.Status) {
		return result, setStatus(ctx, c, user, id, status)
	}
	return result, nil
}

// deleteLost deletes the key that an earlier call has made, whose secret nobody knows.
func deleteLost(ctx context.Context, c *iam.Client, user string, had []string) error {
	keys, err := listKeys(ctx, c, user)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if slices.Contains(had, aws.ToString(k.AccessKeyId)) {
			continue
		}
		use, err := c.GetAccessKeyLastUsed(ctx, &iam.GetAccessKeyLastUsedInput{AccessKeyId: k.AccessKeyId})
		if resource.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		if use.AccessKeyLastUsed != nil && use.AccessKeyLastUsed.LastUsedDate != nil {
			continue
		}
		_, err = c.DeleteAccessKey(ctx, &iam.DeleteAccessKeyInput{UserName: &user, AccessKeyId: k.AccessKeyId})
		if err != nil && !resource.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func setStatus(ctx context.Context, c *iam.Client, user, id, status string) error {
	_, err := c.UpdateAccessKey(ctx, &iam.UpdateAccessKeyInput{
		UserName: &user, AccessKeyId: &id, Status: types.StatusType(status),
	})
	return err
}

// Update is part of [resource.Handler]. The attributes stay: nobody tells the secret again.
func (accessKeys) Update(ctx context.Context, r *resource.Request) (resource.Result, error) {
	status := r.Text("Status")
	if status == "" {
		status = string(types.StatusTypeActive)
	}
	return resource.Result{PhysicalID: r.PhysicalID},
		setStatus(ctx, newClient(r.Config), r.Text("UserName"), r.PhysicalID, status)
}

// Delete is part of [resource.Handler].
func (accessKeys) Delete(ctx context.Context, r *resource.Request) (resource.Result, error) {
	if r.PhysicalID == "" {
		return resource.Result{}, nil
	}
	_, err := newClient(r.Config).DeleteAccessKey(ctx, &iam.DeleteAccessKeyInput{
		UserName: aws.String(r.Text("UserName")), AccessKeyId: &r.PhysicalID,
	})
	if resource.IsNotFound(err) {
		err = nil
	}
	return resource.Result{PhysicalID: r.PhysicalID}, err
}

// Read is part of [resource.Handler].
func (accessKeys) Read(ctx context.Context, r *resource.Request) (properties, attributes map[string]any, err error) {
	keys, err := listKeys(ctx, newClient(r.Config), r.Text("UserName"))
	if err != nil && !resource.IsNotFound(err) {
		return nil, nil, err
	}
	for _, k := range keys {
		if aws.ToString(k.AccessKeyId) == r.PhysicalID {
			return map[string]any{"UserName": r.Text("UserName"), "Status": string(k.Status)},
				map[string]any{"Id": r.PhysicalID}, nil
		}
	}
	return nil, nil, resource.ErrNotFound
}

// Updatable returns the properties that the handler changes in place.
func (accessKeys) Updatable() []string {
	return []string{"Status"}
}
