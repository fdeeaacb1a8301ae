package iam

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// accessKeys is the handler of AWS::IAM::AccessKey.
type accessKeys struct{}

func listKeys(ctx context.Context, c *iam.Client, user string, options ...func(*iam.Options)) (
	[]types.AccessKeyMetadata, error) {
	pages := iam.NewListAccessKeysPaginator(c, &iam.ListAccessKeysInput{UserName: &user})
	return resource.ListAll(ctx, pages, func(page *iam.ListAccessKeysOutput) []types.AccessKeyMetadata {
		return page.AccessKeyMetadata
	}, options...)
}

// Create is part of [resource.Handler].
func (accessKeys) Create(ctx context.Context, r *resource.Request) (resource.Result, error) {
	c, user := newClient(r.Config), r.Text("UserName")
	out, err := c.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: &user}, withToken(r))
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
	c, user, id := newClient(r.Config), r.Text("UserName"), r.PhysicalID
	if id == "" {
		keys, err := listKeys(ctx, c, user, withToken(r))
		if resource.IsNotFound(err) || err == nil && (r.Name == "" || len(keys) == 0) {
			return resource.Result{}, nil
		} else if err != nil {
			return resource.Result{}, err
		}
		id = aws.ToString(keys[0].AccessKeyId)
	}
	_, err := c.DeleteAccessKey(ctx, &iam.DeleteAccessKeyInput{UserName: &user, AccessKeyId: &id})
	if resource.IsNotFound(err) {
		err = nil
	}
	return resource.Result{PhysicalID: id}, err
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
