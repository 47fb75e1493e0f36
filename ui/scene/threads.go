package scene

// Bare is the key of the thread or group that a row belongs to.
func (k RowKey) Bare() RowKey { k.Fiber = 0; return k }
