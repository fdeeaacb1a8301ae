package template

import "context"

func (t *Template) readRules() error { return nil }

func (b *Bound) checkRules(context.Context) error { return nil }
