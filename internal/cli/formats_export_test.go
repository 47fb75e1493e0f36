package cli

// RecordFormats returns the names of all formats that `ddtop record` can write.
func RecordFormats() []string { return formatNames(recordFormats()) }

// ReportFormats returns the names of all formats that `ddtop report` can write.
func ReportFormats() []string { return formatNames(reportFormats(nil)) }

func formatNames(list []format) (names []string) {
	for _, f := range list {
		names = append(names, f.name)
	}
	return names
}
