# frozen_string_literal: true

# The command line. Written by hand because OptionParser's frames and load time are not part of the show.
class Options
  PHASES = %w[healthy hog mutex database gc stall routes].freeze

  # phase: the name of the only phase, nil for all in turn. phase_seconds: the length of a phase in seconds, nil for
  # as long as the program runs. rounds: how often the phases are gone through, 0 for until stopped. threads: how many
  # http threads. stop_with_parent: exit when the process that started this one is gone.
  attr_reader :phase, :phase_seconds, :rounds, :threads, :seed, :log, :stop_with_parent

  def self.parse(argv)
    new(argv.dup)
  rescue ArgumentError => e
    warn "order-service: #{e.message}"
    exit 2
  end

  def initialize(argv)
    @rounds = 0
    @threads = 8
    @seed = 1
    until argv.empty?
      name, value = argv.shift.split("=", 2)
      read(name, value, argv)
    end
    @phase_seconds ||= 20.0 unless @phase && @rounds.zero?
  end

  def phases
    @phase ? [@phase] : PHASES
  end

  private

  def read(name, value, argv)
    case name
    when "--stop-with-parent" then @stop_with_parent = true
    when "--phase" then @phase = phase_name(value || argv.shift)
    when "--phase-seconds" then @phase_seconds = number(name, value || argv.shift, 0.1, 86_400.0)
    when "--rounds" then @rounds = number(name, value || argv.shift, 0, 1_000_000).to_i
    when "--threads" then @threads = number(name, value || argv.shift, 1, 500).to_i
    when "--seed" then @seed = number(name, value || argv.shift, 0, 2**62).to_i
    when "--log" then @log = value || argv.shift || raise(ArgumentError, "--log needs a file name")
    else raise ArgumentError, "unknown option #{name}"
    end
  end

  def phase_name(value)
    return value if PHASES.include?(value)

    raise ArgumentError, "no phase #{value.inspect}; there are #{PHASES.join(', ')}"
  end

  def number(name, value, low, high)
    n = Float(value.to_s)
    return n if n >= low && n <= high

    raise ArgumentError, "#{name} takes #{low} to #{high}"
  rescue ArgumentError
    raise ArgumentError, "#{name} takes a number from #{low} to #{high}, not #{value.inspect}"
  end
end
