package volume

import (
	"cmp"
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// settingHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) settingHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.GetEbsEncryptionByDefault, resource.OnRegion),
		wire.Handle(s.EnableEbsEncryptionByDefault, resource.OnRegion),
		wire.Handle(s.DisableEbsEncryptionByDefault, resource.OnRegion),
		wire.Handle(s.GetEbsDefaultKmsKeyId, resource.OnRegion),
		wire.Handle(s.ModifyEbsDefaultKmsKeyId, s.defaultKeyTargets),
		wire.Handle(s.ResetEbsDefaultKmsKeyId, resource.OnRegion),
	}
}

// editSettings changes the settings of the account in the region, and returns the key that they name.
func (s *Service) editSettings(ctx context.Context, dryRun *bool,
	edit func(resource.Scope, *record.EBSSettings) error) (string, error) {
	var key string
	err := s.ApplyChange(ctx, dryRun, func(c *resource.Change) error {
		at := store.Key(c.Account, c.Region)
		row, err := s.EBSSettings.Copy(c, at)
		fresh := errors.Is(err, store.ErrNotFound)
		if err != nil && !fresh {
			return err
		}
		if err := edit(c.Scope, &row.Value); err != nil {
			return err
		}
		key = cmp.Or(row.Value.DefaultKMSKeyID, resource.ManagedKeyAlias)
		c.Add("ebssettings", func() store.Op {
			if fresh {
				return s.EBSSettings.CreateOp(at, row.Value)
			}
			return s.EBSSettings.UpdateOp(row)
		})
		return nil
	})
	return key, err
}

// GetEbsEncryptionByDefault returns whether new volumes are encrypted whatever requests say.
func (s *Service) GetEbsEncryptionByDefault(ctx context.Context, in *ec2.GetEbsEncryptionByDefaultInput) (
	*ec2.GetEbsEncryptionByDefaultOutput, error) {
	settings, err := s.readSettings(ctx, in.DryRun)
	return &ec2.GetEbsEncryptionByDefaultOutput{EbsEncryptionByDefault: aws.Bool(settings.EncryptionByDefault)}, err
}

func (s *Service) readSettings(ctx context.Context, dryRun *bool) (record.EBSSettings, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return record.EBSSettings{}, err
	}
	settings, err := s.EBSDefaults(sc)
	if err == nil && aws.ToBool(dryRun) {
		err = resource.ErrDryRun
	}
	return settings, err
}

// EnableEbsEncryptionByDefault encrypts all volumes that are created from now on.
func (s *Service) EnableEbsEncryptionByDefault(ctx context.Context, in *ec2.EnableEbsEncryptionByDefaultInput) (
	*ec2.EnableEbsEncryptionByDefaultOutput, error) {
	_, err := s.editSettings(ctx, in.DryRun, func(_ resource.Scope, e *record.EBSSettings) error {
		e.EncryptionByDefault = true
		return nil
	})
	return &ec2.EnableEbsEncryptionByDefaultOutput{EbsEncryptionByDefault: aws.Bool(true)}, err
}

// DisableEbsEncryptionByDefault leaves the encryption of new volumes to requests.
func (s *Service) DisableEbsEncryptionByDefault(ctx context.Context, in *ec2.DisableEbsEncryptionByDefaultInput) (
	*ec2.DisableEbsEncryptionByDefaultOutput, error) {
	_, err := s.editSettings(ctx, in.DryRun, func(_ resource.Scope, e *record.EBSSettings) error {
		e.EncryptionByDefault = false
		return nil
	})
	return &ec2.DisableEbsEncryptionByDefaultOutput{EbsEncryptionByDefault: aws.Bool(false)}, err
}

// GetEbsDefaultKmsKeyId returns the key of volumes for which requests name none.
func (s *Service) GetEbsDefaultKmsKeyId(ctx context.Context, in *ec2.GetEbsDefaultKmsKeyIdInput) (
	*ec2.GetEbsDefaultKmsKeyIdOutput, error) {
	settings, err := s.readSettings(ctx, in.DryRun)
	return &ec2.GetEbsDefaultKmsKeyIdOutput{KmsKeyId: aws.String(cmp.Or(settings.DefaultKMSKeyID,
		resource.ManagedKeyAlias))}, err
}

// defaultKeyTargets returns the action on everything as the target, with the key that is to be the default.
func (s *Service) defaultKeyTargets(ctx context.Context, action string, in *ec2.ModifyEbsDefaultKmsKeyIdInput) (
	[]wire.Target, error) {
	targets, err := resource.OnRegion(ctx, action, in)
	if err != nil {
		return nil, err
	}
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	targets[0].Conditions["ec2:KmsKeyId"] = []string{s.KeyARN(sc, aws.ToString(in.KmsKeyId))}
	return targets, nil
}

// ModifyEbsDefaultKmsKeyId changes the key of volumes for which requests name none. The caller needs kms:DescribeKey.
func (s *Service) ModifyEbsDefaultKmsKeyId(ctx context.Context, in *ec2.ModifyEbsDefaultKmsKeyIdInput) (
	*ec2.ModifyEbsDefaultKmsKeyIdOutput, error) {
	key, err := s.editSettings(ctx, in.DryRun, func(sc resource.Scope, e *record.EBSSettings) error {
		if aws.ToString(in.KmsKeyId) == "" {
			return resource.MissingParameter("KmsKeyId")
		}
		arn, err := s.UseKey(sc, *in.KmsKeyId, UnknownVolume, "kms:DescribeKey")
		e.DefaultKMSKeyID = arn
		return err
	})
	return &ec2.ModifyEbsDefaultKmsKeyIdOutput{KmsKeyId: aws.String(key)}, err
}

// ResetEbsDefaultKmsKeyId makes the AWS managed key the default again.
func (s *Service) ResetEbsDefaultKmsKeyId(ctx context.Context, in *ec2.ResetEbsDefaultKmsKeyIdInput) (
	*ec2.ResetEbsDefaultKmsKeyIdOutput, error) {
	key, err := s.editSettings(ctx, in.DryRun, func(_ resource.Scope, e *record.EBSSettings) error {
		e.DefaultKMSKeyID = ""
		return nil
	})
	return &ec2.ResetEbsDefaultKmsKeyIdOutput{KmsKeyId: aws.String(key)}, err
}
