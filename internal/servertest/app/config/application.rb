# A shop as a Rails application has it: controllers, models, views, PostgreSQL. The database is DATABASE_URL's.
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "action_view/railtie"

module Shop
  class Application < Rails::Application
    config.root = File.expand_path("..", __dir__)
    config.load_defaults 6.1
    config.eager_load = true
    config.secret_key_base = "x" * 64
    config.hosts.clear
    config.log_level = :info
    config.logger = ActiveSupport::Logger.new(File.join(config.root, "production.log"))
    config.logger.formatter = ->(_, _, _, message) { "#{Process.pid} #{message}\n" }
    config.active_record.dump_schema_after_migration = false
  end
end
