package ssm

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/record"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

const maxLabels = 10 // of a version

var labelForm = regexp.MustCompile(`^[a-zA-Z_.\-][a-zA-Z0-9_.\-]{0,99}$`)

func validLabel(label string) bool {
	lower := strings.ToLower(label)
	return labelForm.MatchString(label) && !strings.HasPrefix(lower, "aws") && !strings.HasPrefix(lower, "ssm")
}

// labelHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) labelHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.LabelParameterVersion, func(
			ctx context.Context, action string, in *ssm.LabelParameterVersionInput,
		) ([]wire.Target, error) {
			return s.onParameters(ctx, action, *in.Name), nil
		}),
		wire.Handle(s.UnlabelParameterVersion, func(
			ctx context.Context, action string, in *ssm.UnlabelParameterVersionInput,
		) ([]wire.Target, error) {
			return s.onParameters(ctx, action, *in.Name), nil
		}),
	}
}

// LabelParameterVersion puts labels on a version, the latest if none is named; a label that is on another version
// moves.
func (s *Service) LabelParameterVersion(ctx context.Context, in *ssm.LabelParameterVersionInput) (
	*ssm.LabelParameterVersionOutput, error) {
	row, err := s.ownByName(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	out := &ssm.LabelParameterVersionOutput{InvalidLabels: []string{}}
	_, err = s.parameters.Modify(ctx, row.Key, func(p *record.Parameter) error {
		out.InvalidLabels, out.ParameterVersion = []string{}, p.Latest
		if in.ParameterVersion != nil {
			out.ParameterVersion = *in.ParameterVersion
		}
		if _, err := s.version(ctx, *p, out.ParameterVersion); err != nil {
			return err
		}
		labels := maps.Clone(p.Labels)
		if labels == nil {
			labels = make(map[string]int64)
		}
		for _, label := range in.Labels {
			if validLabel(label) {
				labels[label] = out.ParameterVersion
			} else {
				out.InvalidLabels = append(out.InvalidLabels, label)
			}
		}
		p.Labels = labels
		if n := len(labelsOf(*p, out.ParameterVersion)); n > maxLabels {
			return &types.ParameterVersionLabelLimitExceeded{
				Message: new(fmt.Sprintf(
					"A parameter version can have maximum %d labels: version %d of %s would have %d. Move one or "+
						"more labels to another version and try again.", maxLabels, out.ParameterVersion, p.Name, n))}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// UnlabelParameterVersion takes labels off a version.
func (s *Service) UnlabelParameterVersion(ctx context.Context, in *ssm.UnlabelParameterVersionInput) (
	*ssm.UnlabelParameterVersionOutput, error) {
	row, err := s.ownByName(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	out := &ssm.UnlabelParameterVersionOutput{}
	_, err = s.parameters.Modify(ctx, row.Key, func(p *record.Parameter) error {
		out.InvalidLabels, out.RemovedLabels = []string{}, []string{}
		if _, err := s.version(ctx, *p, *in.ParameterVersion); err != nil {
			return err
		}
		p.Labels = maps.Clone(p.Labels)
		for _, label := range slices.Compact(slices.Sorted(slices.Values(in.Labels))) {
			if on, ok := p.Labels[label]; ok && on == *in.ParameterVersion {
				delete(p.Labels, label)
				out.RemovedLabels = append(out.RemovedLabels, label)
			} else {
				out.InvalidLabels = append(out.InvalidLabels, label)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
